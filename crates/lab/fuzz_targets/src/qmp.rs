//! Target for `qmp`, with the messages of QEMU, or of a guest that has taken over its QEMU.

use std::collections::HashSet;

use qmp::{Client, Command, Decoder, Error, Incoming, MESSAGE_BYTES_MAX, Message, Value};

use crate::input::{Cut, texts};

/// Passes any stream, in any pieces, to a decoder, and to a client with all commands open.
pub(crate) fn qmp(data: &[u8]) {
    let cut = Cut::new(data);
    let pieces = cut.pieces(cut.stream);
    assert_eq!(decode(&[cut.stream]), decode(&pieces), "in pieces");
    converse(&pieces);
}

fn decode(pieces: &[&[u8]]) -> Vec<Result<Message, Error>> {
    let mut decoder = Decoder::new();
    let mut found = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        found.extend(decoder.by_ref());
        assert!(decoder.buffered_bytes() <= MESSAGE_BYTES_MAX);
    }
    // Errors are shown to users, so each error must have a text.
    for error in found.iter().filter_map(|result| result.as_ref().err()) {
        assert!(!error.to_string().is_empty());
    }
    found
}

fn commands() -> [Command; 28] {
    [
        Command::QueryStatus,
        Command::QueryCpusFast,
        Command::QueryBalloon,
        Command::Balloon { value_bytes: u64::MAX },
        Command::SetStatsInterval { device_path: "/\"\n".into(), interval_seconds: 1 },
        Command::SystemPowerdown,
        Command::Human { line: String::new() },
        Command::Quit,
        Command::QueryName,
        Command::QueryUuid,
        Command::QueryMemory,
        Command::Stop,
        Command::QueryChardev,
        Command::QueryMigrate,
        Command::QueryBlockstats,
        Command::QomList { path: "/machine/peripheral".into() },
        Command::QueryMemdev,
        Command::QueryMemoryDevices,
        Command::QomGet { path: "/machine/peripheral/b".into(), property: "guest-stats" },
        Command::Continue,
        Command::SetMigrateBandwidth { bytes_a_second: u64::MAX },
        Command::GetFile { name: "state" },
        Command::AddFile { set: 9 },
        Command::Migrate { uri: "fd:state".into() },
        Command::LeaveFilesOut,
        Command::MigrateIncoming { uri: "fd:\"\n".into() },
        Command::SaveDevices { path: "/dev/fdset/1".into() },
        Command::QomGet { path: "/machine".into(), property: "name" },
    ]
}

fn converse(pieces: &[&[u8]]) {
    let commands = commands();
    let mut client = Client::new();
    let asked = commands.len();
    let tickets = commands.map(|command| client.ask(command));
    let mut open: HashSet<_> = tickets.into_iter().filter_map(Result::ok).collect();
    assert_eq!(open.len(), asked);
    let mut ready = false;
    for piece in pieces {
        client.feed(piece);
        while let Some(incoming) = client.poll() {
            match incoming {
                Ok(Incoming::Ready) => {
                    assert!(!ready, "ready twice");
                    ready = true;
                }
                Ok(Incoming::Reply { ticket, .. }) => {
                    assert!(ready, "{ticket:?} was answered before it was asked");
                    assert!(open.remove(&ticket), "{ticket:?} was not open");
                }
                Ok(Incoming::Event { .. }) | Err(_) => {}
            }
        }
        // The other end must not make the client send a line twice, or a command too early.
        let lines = client.output().iter().filter(|byte| **byte == b'\n').count();
        assert!(lines == if ready { 1 + asked } else { lines.min(1) }, "{lines} lines");
        assert!(client.output().is_empty() || client.output().ends_with(b"\n"));
    }
}

/// Passes an answer of any shape to each command. Each command must get one answer, a result or a
/// reason, whatever the JSON contains.
pub(crate) fn qmp_replies(data: &[u8]) {
    let version = r#"{"qemu":{"micro":0,"minor":2,"major":7},"package":""}"#;
    let greeting = format!(r#"{{"QMP":{{"version":{version},"capabilities":[]}}}}"#);
    let mut client = Client::new();
    client.feed(format!("{greeting}\r\n{{\"return\": {{}}, \"id\": 0}}\r\n").as_bytes());
    let ready = std::iter::from_fn(|| client.poll());
    assert!(ready.last().is_some_and(|last| matches!(last, Ok(Incoming::Ready))));
    for (id, (text, command)) in (1..).zip(texts(data).zip(commands().into_iter().cycle())) {
        let Ok(ticket) = client.ask(command.clone()) else { panic!("one is open at a time") };
        let text = std::str::from_utf8(text).unwrap_or_default();
        let value = text.parse().unwrap_or(Value::Null);
        let key = if id % 8 == 0 { "error" } else { "return" };
        client.feed(format!("{{\"{key}\": {value}, \"id\": {id}}}\r\n").as_bytes());
        let replies = std::iter::from_fn(|| client.poll()).filter(
            |incoming| matches!(incoming, Ok(Incoming::Reply { ticket: of, .. }) if *of == ticket),
        );
        let count = replies.count();
        // A failure without its message is invalid, and its command stays open.
        assert!(count == 1 || key == "error", "{command:?} got {count} answers from {value}");
        if count == 0 {
            return;
        }
    }
}
