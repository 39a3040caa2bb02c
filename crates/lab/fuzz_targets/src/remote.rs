//! Target for hosts that are queried over ssh, with whole rounds of answers from such a host.

use std::fs;
use std::process::Command;

use metrics::remote::{Host, Uri};
use model::{GuestField as G, HostField as H, Moment};
use virtrpc::{Call, Client, DOMAINS_MAX, Domain};
use vm::Scratch;

use crate::virtrpc::reply_to;

const ROUNDS: usize = 3;
/// Fields of hosts and guests that are sums over all rounds and never fall.
const OF_HOST: [H; 4] = [H::User, H::System, H::Idle, H::IoWait];
const OF_GUEST: [G; 9] = [
    G::VcpuRun,
    G::BlockReads,
    G::BlockReadBytes,
    G::BlockWrites,
    G::BlockWriteBytes,
    G::NetInPackets,
    G::NetInBytes,
    G::NetOutPackets,
    G::NetOutBytes,
];
/// Shell script that sends the content of a file, and then reads until the input ends.
const HOST: &str = "cat \"$0\"; exec cat > /dev/null 2>&1";

/// Queries a host with prepared answers for some rounds. Each answer consists of a byte with the
/// call's result, two bytes with the length of the body, and the body. The sums of a guest that
/// stays must never fall.
pub(crate) fn remote_rounds(data: &[u8]) {
    let Ok(dir) = Scratch::new("fuzz-host") else { return };
    let file = dir.join("answers");
    if fs::write(&file, answers(data)).is_ok() {
        let mut program = Command::new("sh");
        program.args(["-c", HOST]).arg(&file);
        rounds(program);
    }
}

fn rounds(program: Command) {
    let Ok(uri) = Uri::parse("qemu+ssh://b/system") else { panic!("it is an address") };
    let mut host = match Host::behind(program, uri) {
        Ok(host) => host,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut before: Option<Moment> = None;
    for at_ms in 0..ROUNDS as i64 {
        // The rounds end when the connection fails, because a new connection would use ssh.
        if !host.is_connected() {
            return;
        }
        match host.ask(|| at_ms) {
            Ok(moment) => {
                check(&moment, before.as_ref());
                before = Some(moment);
            }
            // After a failed round, sums may be smaller, so the next round is not compared.
            Err(error) => {
                assert!(!error.to_string().is_empty());
                before = None;
            }
        }
    }
}

fn check(now: &Moment, before: Option<&Moment>) {
    let guests = now.guests.len();
    assert!(guests <= DOMAINS_MAX && now.host.get(H::Guests) == Some(guests as u64));
    let Some(before) = before else { return };
    for field in OF_HOST {
        assert!(now.host.get(field) >= before.host.get(field), "{field:?}");
    }
    for (guest, row) in &now.guests {
        let Some(earlier) = before.guests.get(guest) else { continue };
        for field in OF_GUEST {
            assert!(row.get(field) >= earlier.get(field), "{guest:?}: {field:?}");
        }
    }
}

/// Returns the calls of a session in their order.
fn calls() -> impl Iterator<Item = Call> {
    let open = Call::Open { uri: "qemu:///system".into(), is_read_only: true };
    let round = [
        Call::NodeInfo,
        Call::NodeCpuStats { count: 0 },
        Call::NodeCpuStats { count: 4 },
        Call::NodeMemoryStats { count: 0 },
        Call::NodeMemoryStats { count: 4 },
        Call::ListActive,
        Call::Stats(Vec::new()),
        Call::Info(Domain { name: "web".into(), uuid: [7; 16], id: 3 }),
    ];
    // The number of virtual CPUs is requested once.
    let again = round.clone().into_iter().take(7).cycle();
    [Call::AuthList, open].into_iter().chain(round).chain(again)
}

/// Returns the host's messages: the answers, with the headers that the session expects.
fn answers(data: &[u8]) -> Vec<u8> {
    let mut data = data;
    let mut sent = Vec::new();
    let mut client = Client::new();
    for call in calls() {
        let Some(([status, high, low], rest)) = data.split_first_chunk() else { break };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (body, rest) = rest.split_at(length.min(rest.len()));
        data = rest;
        let Some(reply) = reply_to(&mut client, call, *status, body) else { break };
        client.feed(&reply);
        while client.poll().is_some() {}
        sent.extend(reply);
    }
    sent
}
