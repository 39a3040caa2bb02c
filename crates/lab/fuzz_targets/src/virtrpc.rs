//! Target for `virtrpc`, with the messages of libvirt, or of another process that listens at
//! libvirt's socket.

use std::collections::HashSet;

use virtrpc::{
    Call, Client, Decoder, Domain, Error, EventKind, Incoming, MESSAGE_BYTES_MAX, Message,
};

use crate::input::Cut;

/// Passes any stream, in any pieces, to a decoder, and to a client with all calls open.
pub(crate) fn virtrpc(data: &[u8]) {
    let cut = Cut::new(data);
    let pieces = cut.pieces(cut.stream);
    assert_eq!(decode(&[cut.stream]), decode(&pieces), "in pieces");
    converse(&pieces);
}

fn decode(pieces: &[&[u8]]) -> Vec<Result<Message, Error>> {
    let mut decoder = Decoder::new();
    let mut found = Vec::new();
    let mut is_lost = false;
    for piece in pieces {
        decoder.feed(piece);
        for message in decoder.by_ref() {
            assert!(!is_lost, "something came after the framing was lost");
            is_lost = message.as_ref().is_err_and(Error::is_fatal);
            found.push(message);
        }
        assert!(decoder.buffered_bytes() <= MESSAGE_BYTES_MAX);
    }
    for error in found.iter().filter_map(|result| result.as_ref().err()) {
        assert!(!error.to_string().is_empty());
    }
    found
}

fn calls() -> [Call; 19] {
    let domain = || Domain { name: "\"<\n".into(), uuid: [7; 16], id: -1 };
    [
        Call::AuthList,
        Call::AuthPolkit,
        Call::Open { uri: "qemu:///system".into(), is_read_only: false },
        Call::ListActive,
        Call::Xml(domain()),
        Call::ConfiguredXml(domain()),
        Call::State(domain()),
        Call::Info(domain()),
        Call::Control(domain()),
        Call::MemoryStats(domain()),
        Call::Suspend(domain()),
        Call::Resume(domain()),
        Call::SetMemory { domain: domain(), memory_kib: u64::MAX },
        Call::SetStatsPeriod { domain: domain(), period_seconds: 1 },
        Call::Register(EventKind::Lifecycle),
        Call::NodeInfo,
        Call::NodeCpuStats { count: 4 },
        Call::NodeMemoryStats { count: 0 },
        Call::Stats(vec![domain(), domain()]),
    ]
}

fn converse(pieces: &[&[u8]]) {
    let calls = calls();
    let mut client = Client::new();
    let asked = calls.len();
    let tickets = calls.map(|call| client.ask(call));
    let mut open: HashSet<_> = tickets.into_iter().filter_map(Result::ok).collect();
    assert_eq!(open.len(), asked);
    let sent = client.output().len();
    for piece in pieces {
        client.feed(piece);
        while let Some(incoming) = client.poll() {
            if let Ok(Incoming::Reply { ticket, .. }) = incoming {
                assert!(open.remove(&ticket), "{ticket:?} was not open");
            }
        }
        assert_eq!(client.open_calls(), open.len());
        // The client sends at most a few pongs, for any number of pings.
        assert!(client.output().len() <= sent + 8 * 28, "{} bytes", client.output().len());
    }
}

/// Length of a message's header without the length field: program, version, procedure, type, serial
/// and status.
const HEADER_BYTES: usize = 24;

/// Passes an answer of any shape to each call. Each call must get one answer, a result or a reason.
/// The first byte of a text selects success or failure. The rest is the answer's body.
pub(crate) fn virtrpc_replies(data: &[u8]) {
    let mut data = data;
    for call in calls().into_iter().cycle() {
        let Some(([status, length], rest)) = data.split_first_chunk() else { return };
        let (body, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        data = rest;
        let mut client = Client::new();
        let Some(reply) = reply_to(&mut client, call.clone(), *status, body) else {
            panic!("none is open")
        };
        client.feed(&reply);
        let replies = std::iter::from_fn(|| client.poll());
        let replies = replies.filter(|incoming| matches!(incoming, Ok(Incoming::Reply { .. })));
        assert_eq!(replies.count(), 1, "{call:?} with {}", body.escape_ascii());
        assert_eq!(client.open_calls(), 0);
    }
}

/// Makes this call, and returns the daemon's answer; `None` if too many calls are open.
pub(crate) fn reply_to(
    client: &mut Client,
    call: Call,
    status: u8,
    body: &[u8],
) -> Option<Vec<u8>> {
    let sent = client.output().len();
    client.ask(call).ok()?;
    let mut header = client.output().get(sent + 4..sent + 4 + HEADER_BYTES)?.to_vec();
    // The message type of a reply, and the status of the reply.
    header[12..16].copy_from_slice(&1_u32.to_be_bytes());
    header[20..24].copy_from_slice(&u32::from(status % 3).to_be_bytes());
    let length = (4 + HEADER_BYTES + body.len()) as u32;
    Some([&length.to_be_bytes(), header.as_slice(), body].concat())
}
