//! The conversation: negotiation, answers out of order, refusals, hostile answers.

#![allow(
    clippy::unwrap_used,
    reason = "clippy.toml allows it in test functions, not in their helpers"
)]

use qmp::{Client, Command, Error, Failure, Incoming, PENDING_MAX, Reply, RunState, VcpuThread};
use serde_json::{Value, json};

const GREETING: &[u8] = br#"{"QMP": {"version": {"qemu": {"micro": 0, "minor": 2, "major": 7},
 "package": ""}, "capabilities": []}}"#;

/// Returns the output as lines of JSON.
fn sent(client: &mut Client) -> Vec<Value> {
    let text = String::from_utf8(client.output().to_vec()).unwrap();
    client.advance(text.len());
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn feed(client: &mut Client, line: Value) -> Vec<Result<Incoming, Error>> {
    client.feed(format!("{line}\r\n").as_bytes());
    std::iter::from_fn(|| client.poll()).collect()
}

fn greet(client: &mut Client) {
    let line: Vec<u8> = GREETING.iter().copied().filter(|&byte| byte != b'\n').collect();
    client.feed(&line);
    client.feed(b"\r\n");
    assert_eq!(client.poll(), None);
}

fn ready() -> Client {
    let mut client = Client::new();
    greet(&mut client);
    assert_eq!(sent(&mut client), [json!({ "execute": "qmp_capabilities", "id": 0 })]);
    let incoming = feed(&mut client, json!({ "return": {}, "id": 0 }));
    assert_eq!(incoming, [Ok(Incoming::Ready)]);
    client
}

/// Sends one command and answers it.
fn answer(command: Command, value: Value) -> Result<Incoming, Error> {
    let mut client = ready();
    client.ask(command).unwrap();
    let id = sent(&mut client)[0]["id"].clone();
    feed(&mut client, json!({ "return": value, "id": id })).remove(0)
}

/// Checks that a malformed answer is reported to the command's caller, with the name of the invalid
/// member.
fn refuses(command: Command, value: Value, member: &'static str) {
    let name = command.name();
    let Ok(Incoming::Reply { outcome: Err(failure), .. }) = answer(command, value.clone()) else {
        panic!("{name} takes {value}");
    };
    assert_eq!(failure.class, Failure::MISSHAPEN);
    assert_eq!(failure.desc, Error::Reply { command: name, member }.to_string(), "{value}");
}

#[test]
fn an_answer_before_its_time_is_nobodys() {
    let mut client = Client::new();
    let ticket = client.ask(Command::QueryBalloon).unwrap();
    let early = json!({ "return": { "actual": 5 }, "id": 1 });
    assert_eq!(feed(&mut client, early.clone()), [Err(Error::UnknownId { id: Some(1) })]);
    greet(&mut client);
    let failed = json!({ "error": { "class": "a", "desc": "b" }, "id": 1 });
    assert_eq!(feed(&mut client, failed), [Err(Error::UnknownId { id: Some(1) })]);
    feed(&mut client, json!({ "return": {}, "id": 0 }));
    assert!(client.output().ends_with(b"\n"), "the command is asked all the same");
    let reply = Incoming::Reply { ticket, outcome: Ok(Reply::Balloon { actual_bytes: 5 }) };
    assert_eq!(feed(&mut client, early), [Ok(reply)]);
    // A finished negotiation cannot be refused later.
    let refused = json!({ "error": { "class": "a", "desc": "b" }, "id": 0 });
    assert_eq!(feed(&mut client, refused), [Err(Error::UnknownId { id: Some(0) })]);
    client.ask(Command::QueryBalloon).unwrap();
    assert!(String::from_utf8_lossy(client.output()).contains("\"id\":2"));
}

#[test]
fn commands_wait_for_the_negotiation() {
    let mut client = Client::new();
    client.ask(Command::Balloon { value_bytes: 1 << 26 }).unwrap();
    assert!(client.output().is_empty());
    greet(&mut client);
    assert_eq!(sent(&mut client).len(), 1);
    feed(&mut client, json!({ "return": {}, "id": 0 }));
    assert_eq!(
        sent(&mut client),
        [json!({ "execute": "balloon", "arguments": { "value": 67_108_864 }, "id": 1 })]
    );
}

#[test]
fn answers_find_their_commands_in_any_order() {
    let mut client = ready();
    let first = client.ask(Command::QueryBalloon).unwrap();
    let second = client.ask(Command::QueryStatus).unwrap();
    let status = json!({ "status": "running", "running": true, "singlestep": false });
    assert_eq!(
        feed(&mut client, json!({ "return": status, "id": 2 })),
        [Ok(Incoming::Reply {
            ticket: second,
            outcome: Ok(Reply::Status(RunState { running: true, status: "running".into() })),
        })]
    );
    assert_eq!(
        feed(&mut client, json!({ "return": { "actual": 5 }, "id": 1 })),
        [Ok(Incoming::Reply { ticket: first, outcome: Ok(Reply::Balloon { actual_bytes: 5 }) })]
    );
}

#[test]
fn a_failed_command_is_an_answer_not_an_error() {
    let mut client = ready();
    let ticket = client.ask(Command::QueryBalloon).unwrap();
    let error = json!({ "class": "DeviceNotActive", "desc": "No balloon device" });
    assert_eq!(
        feed(&mut client, json!({ "error": error, "id": 1 })),
        [Ok(Incoming::Reply {
            ticket,
            outcome: Err(Failure {
                class: "DeviceNotActive".into(),
                desc: "No balloon device".into(),
            }),
        })]
    );
}

#[test]
fn vcpu_threads_are_sorted_and_checked() {
    let list = json!([
        { "thread-id": 12, "cpu-index": 1, "qom-path": "/x" },
        { "thread-id": 11, "cpu-index": 0 },
    ]);
    let Ok(Incoming::Reply { outcome: Ok(Reply::Vcpus(vcpus)), .. }) =
        answer(Command::QueryCpusFast, list)
    else {
        panic!("no list of virtual CPUs");
    };
    assert_eq!(vcpus, [VcpuThread { index: 0, tid: 11 }, VcpuThread { index: 1, tid: 12 }]);

    let check = |value, member| refuses(Command::QueryCpusFast, value, member);
    check(json!({}), "(list)");
    check(json!([{ "cpu-index": 0 }]), "thread-id");
    check(json!([{ "cpu-index": -1, "thread-id": 1 }]), "cpu-index");
    check(json!([{ "cpu-index": 0, "thread-id": 1u64 << 40 }]), "thread-id");
    check(json!(vec![json!({}); 5000]), "(list)");
}

#[test]
fn hostile_answers_are_errors() {
    for value in [json!({ "actual": -1 }), json!({ "actual": "1" }), json!(null)] {
        refuses(Command::QueryBalloon, value, "actual");
    }

    let mut client = ready();
    let unknown = feed(&mut client, json!({ "return": {}, "id": 99 }));
    assert_eq!(unknown, [Err(Error::UnknownId { id: Some(99) })]);
    let anonymous = feed(&mut client, json!({ "error": { "class": "a", "desc": "b" } }));
    assert_eq!(anonymous, [Err(Error::UnknownId { id: None })]);
    assert_eq!(feed(&mut client, json!({ "return": {}, "id": 0 })), [], "a second negotiation");
}

#[test]
fn a_refused_negotiation_ends_it() {
    let mut client = Client::new();
    greet(&mut client);
    let error = json!({ "class": "CommandNotFound", "desc": "no" });
    let incoming = feed(&mut client, json!({ "error": error, "id": 0 }));
    assert_eq!(incoming, [Err(Error::Refused { desc: "no".into() })]);
    sent(&mut client);
    client.ask(Command::Quit).unwrap();
    assert!(client.output().is_empty(), "nothing is sent to a QEMU that refused us");
}

#[test]
fn a_silent_qemu_does_not_grow_the_queue() {
    let mut client = Client::new();
    for _ in 0..PENDING_MAX {
        client.ask(Command::QueryStatus).unwrap();
    }
    assert_eq!(client.ask(Command::QueryStatus), Err(Error::Backlog { limit: PENDING_MAX }));
}

#[test]
fn the_statistics_interval_is_a_property_of_the_balloon() {
    let mut client = ready();
    let device_path = "/machine/peripheral/balloon0".to_owned();
    client.ask(Command::SetStatsInterval { device_path, interval_seconds: 2 }).unwrap();
    let arguments = json!({
        "path": "/machine/peripheral/balloon0",
        "property": "guest-stats-polling-interval",
        "value": 2,
    });
    assert_eq!(
        sent(&mut client),
        [json!({ "execute": "qom-set", "arguments": arguments, "id": 1 })]
    );
}
