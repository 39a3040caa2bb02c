//! Parsing of the answer to each command, and refusal of malformed answers.

#![allow(
    clippy::unwrap_used,
    reason = "clippy.toml allows it in test functions, not in their helpers"
)]

use qmp::{BlockStats, Chardev, Command, Error, LIST_MAX, Property, Reply, TEXT_BYTES_MAX};
use serde_json::{Value, json};

fn read(command: Command, value: Value) -> Reply {
    command.read_reply(&value).unwrap()
}

/// Returns the name of the invalid member.
fn wrong(command: Command, value: Value) -> &'static str {
    match command.read_reply(&value) {
        Err(Error::Reply { command: name, member }) => {
            assert_eq!(name, command.name());
            member
        }
        other => panic!("{value}: {other:?}"),
    }
}

fn peripheral() -> Command {
    Command::QomList { path: "/machine/peripheral".into() }
}

#[test]
fn a_guest_is_named_or_not() {
    let name = |value| read(Command::QueryName, value);
    assert_eq!(name(json!({ "name": "web1" })), Reply::Name(Some("web1".into())));
    assert_eq!(name(json!({})), Reply::Name(None));
    assert_eq!(wrong(Command::QueryName, json!({ "name": 1 })), "name");
    assert_eq!(wrong(Command::QueryName, json!([])), "(object)");
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    assert_eq!(wrong(Command::QueryName, json!({ "name": long })), "name");
}

#[test]
fn a_uuid_is_sixteen_bytes() {
    let text = "00112233-4455-6677-8899-aAbBcCdDeEfF";
    let bytes = [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD];
    let Reply::Uuid(uuid) = read(Command::QueryUuid, json!({ "UUID": text })) else {
        panic!("no UUID");
    };
    assert_eq!(uuid[..14], bytes);
    for text in [
        "",
        "00112233-4455-6677-8899-aabbccddeef",
        "00112233-4455-6677-8899-aabbccddeefg",
        "0011223344556677-8899-aabbccddeeff-00",
        "+0112233-4455-6677-8899-aabbccddeeff",
        "\u{e9}0112233-4455-6677-8899-aabbccddeef",
    ] {
        assert_eq!(wrong(Command::QueryUuid, json!({ "UUID": text })), "UUID", "{text}");
    }
}

#[test]
fn memory_is_what_was_built_in_and_what_was_plugged() {
    let memory = |value| read(Command::QueryMemory, value);
    assert_eq!(
        memory(json!({ "base-memory": 1 << 30 })),
        Reply::Memory { base_bytes: 1 << 30, plugged_bytes: None }
    );
    assert_eq!(
        memory(json!({ "base-memory": 1 << 30, "plugged-memory": 0 })),
        Reply::Memory { base_bytes: 1 << 30, plugged_bytes: Some(0) }
    );
    let both = json!({ "base-memory": 1, "plugged-memory": null });
    assert_eq!(wrong(Command::QueryMemory, both), "plugged-memory");
    assert_eq!(wrong(Command::QueryMemory, json!({ "base-memory": -1 })), "base-memory");
}

#[test]
fn report_h15_pieces_of_memory_have_their_sizes() {
    let piece =
        |size: i64| json!({ "id": "ram0", "size": size, "merge": true, "policy": "default" });
    let memory = Reply::Memdevs(vec![1 << 27, 1 << 28]);
    assert_eq!(read(Command::QueryMemdev, json!([piece(1 << 27), piece(1 << 28)])), memory);
    assert_eq!(wrong(Command::QueryMemdev, json!([piece(-1)])), "size");
    assert_eq!(wrong(Command::QueryMemdev, json!({ "size": 1 })), "(list)");
}

#[test]
fn objects_are_listed_within_bounds() {
    let list = json!([{ "name": "balloon0", "type": "child<virtio-balloon-pci>" }]);
    let property = Property { name: "balloon0".into(), kind: "child<virtio-balloon-pci>".into() };
    assert_eq!(read(peripheral(), list), Reply::Properties(vec![property]));
    assert_eq!(wrong(peripheral(), json!([{ "name": "x" }])), "type");
    let item = json!({ "name": "x", "type": "y" });
    assert_eq!(wrong(peripheral(), json!(vec![item; LIST_MAX + 1])), "(list)");
    let get = Command::QomGet { path: "/machine/peripheral/b".into(), property: "deflate-on-oom" };
    assert_eq!(read(get, json!(true)), Reply::Value(json!(true)));
}

#[test]
fn character_devices_say_where_they_end() {
    let list = json!([
        { "frontend-open": true, "filename": "unix:/run/p,server=on", "label": "port" },
    ]);
    let device = Chardev { label: "port".into(), filename: "unix:/run/p,server=on".into() };
    assert_eq!(read(Command::QueryChardev, list), Reply::Chardevs(vec![device]));
    assert_eq!(wrong(Command::QueryChardev, json!([{ "label": "port" }])), "filename");
}

#[test]
fn a_guest_that_never_moved_has_no_migration() {
    let status = |value| read(Command::QueryMigrate, value);
    assert_eq!(status(json!({})), Reply::Migration(None));
    assert_eq!(status(json!({ "status": "active" })), Reply::Migration(Some("active".into())));
    assert_eq!(wrong(Command::QueryMigrate, json!({ "status": {} })), "status");
}

#[test]
fn disk_accesses_are_summed_up() {
    let disk =
        json!({ "rd_operations": 3, "rd_bytes": 5, "wr_operations": u64::MAX, "wr_bytes": 7 });
    let both = json!([{ "device": "a", "stats": disk }, { "node-name": "b", "stats": disk }]);
    let sum = BlockStats { reads: 6, read_bytes: 10, writes: u64::MAX, write_bytes: 14 };
    assert_eq!(read(Command::QueryBlockstats, both), Reply::Blocks(sum));
    assert_eq!(read(Command::QueryBlockstats, json!([])), Reply::Blocks(BlockStats::default()));
    assert_eq!(wrong(Command::QueryBlockstats, json!([{ "device": "a" }])), "stats");
    let broken = json!([{ "stats": { "rd_operations": -1 } }]);
    assert_eq!(wrong(Command::QueryBlockstats, broken), "rd_operations");
    assert_eq!(wrong(Command::QueryBlockstats, json!({})), "(list)");
}

#[test]
fn paths_are_arguments_and_not_text() {
    let get = Command::QomGet { path: "/a\"\n".into(), property: "guest-stats" };
    let line = get.encode(7);
    let sent: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    let arguments = json!({ "path": "/a\"\n", "property": "guest-stats" });
    assert_eq!(sent, json!({ "execute": "qom-get", "arguments": arguments, "id": 7 }));
}
