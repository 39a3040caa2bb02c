//! A conversation with a simulated daemon, word by word.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use virtrpc::{
    Auth, Call, Client, Domain, DomainStats, Error, Event, EventKind, Failure, HEADER_BYTES,
    Incoming, Info, Lifecycle, MESSAGE_BYTES_MAX, MemoryStat, NodeInfo, PENDING_MAX, Reply, Value,
};

const PROGRAM: u32 = 0x2000_8086;
const KEEPALIVE: u32 = 0x6b65_6570;

fn domain() -> Domain {
    Domain { name: "web1".into(), uuid: *b"0123456789abcdef", id: 7 }
}

/// Words and bytes of a body, in the order in which they are added.
#[derive(Clone, Default)]
struct Body(Vec<u8>);

impl Body {
    fn word(mut self, word: u32) -> Body {
        self.0.extend(word.to_be_bytes());
        self
    }

    fn long(mut self, long: u64) -> Body {
        self.0.extend(long.to_be_bytes());
        self
    }

    fn text(self, text: &str) -> Body {
        let mut body = self.word(text.len() as u32);
        body.0.extend(text.as_bytes());
        body.0.resize(body.0.len().next_multiple_of(4), 0);
        body
    }

    fn domain(self) -> Body {
        let Domain { name, uuid, id } = domain();
        let mut body = self.text(&name);
        body.0.extend(uuid);
        body.word(id as u32)
    }
}

fn message(words: [u32; 6], body: &Body) -> Body {
    let mut whole = Body::default().word((HEADER_BYTES + body.0.len()) as u32);
    for word in words {
        whole = whole.word(word);
    }
    whole.0.extend(&body.0);
    whole
}

fn reply(procedure: u32, serial: u32, body: &Body) -> Body {
    message([PROGRAM, 1, procedure, 1, serial, 0], body)
}

fn event(procedure: u32, body: &Body) -> Body {
    message([PROGRAM, 1, procedure, 2, 0, 0], body)
}

fn heard(client: &mut Client, body: &Body) -> Vec<Result<Incoming, Error>> {
    client.feed(&body.0);
    std::iter::from_fn(|| client.poll()).collect()
}

/// Checks the encoding of a call, and the decoding of its answer.
fn check(call: Call, procedure: u32, arguments: Body, answer: Body, expected: Reply) {
    let mut client = Client::new();
    let ticket = client.ask(call.clone()).unwrap();
    let sent = message([PROGRAM, 1, procedure, 0, 1, 0], &arguments);
    assert_eq!(client.output(), sent.0);
    client.advance(sent.0.len());
    assert!(client.output().is_empty());
    let got = heard(&mut client, &reply(procedure, 1, &answer));
    assert_eq!(got, [Ok(Incoming::Reply { ticket, outcome: Ok(expected.clone()) })]);
    if expected == Reply::Done {
        return;
    }
    // An answer that is cut anywhere, or too long, comes back as a failure with its ticket.
    let cut = (0..answer.0.len()).step_by(4);
    for (length, serial) in cut.chain([answer.0.len() + 4]).zip(2..) {
        let ticket = client.ask(call.clone()).unwrap();
        let mut wrong = answer.clone();
        wrong.0.resize(length, 0);
        let got = heard(&mut client, &reply(procedure, serial, &wrong));
        let [Ok(Incoming::Reply { ticket: same, outcome: Err(failure) })] = &got[..] else {
            panic!("{length} bytes: {got:?}");
        };
        assert_eq!((*same, failure.code), (ticket, None));
    }
    assert_eq!(client.open_calls(), 0);
}

#[test]
fn the_beginning_of_a_conversation() {
    let none = Body::default;
    let answer = none().word(2).word(2).word(0);
    let auths = Reply::Auths(vec![Auth::Polkit, Auth::None]);
    check(Call::AuthList, 66, none(), answer, auths);
    check(Call::AuthPolkit, 70, none(), none().word(1), Reply::Done);
    let open = Call::Open { uri: "qemu:///system".into(), is_read_only: false };
    check(open, 1, none().word(1).text("qemu:///system").word(0), none(), Reply::Done);
    let arguments = none().word(13).word(0);
    let register = Call::Register(EventKind::BalloonChange);
    check(register, 316, arguments, none().word(3), Reply::Callback(3));
    let answer = none().word(1).domain().word(1);
    check(Call::ListActive, 273, none().word(1).word(1), answer, Reply::Domains(vec![domain()]));
}

#[test]
fn a_domain_is_looked_at() {
    let of_domain = || Body::default().domain();
    let flags = || of_domain().word(0);
    let answer = Body::default().text("<domain/>");
    check(Call::Xml(domain()), 14, flags(), answer, Reply::Xml("<domain/>".into()));
    let (configured, answer) = (of_domain().word(2), Body::default().text("<domain/>"));
    check(Call::ConfiguredXml(domain()), 14, configured, answer, Reply::Xml("<domain/>".into()));
    let info = Info { max_memory_kib: 1 << 40, memory_kib: 5, vcpus: 2 };
    let answer = Body::default().word(1).long(1 << 40).long(5).word(2).long(99);
    check(Call::Info(domain()), 16, of_domain(), answer, Reply::Info(info));
    let answer = Body::default().word(3).word(2);
    check(Call::State(domain()), 212, flags(), answer, Reply::State { state: 3, reason: 2 });
    let answer = Body::default().word(2).word(1).long(4000);
    check(Call::Control(domain()), 229, flags(), answer, Reply::Control { state: 2 });
    let answer = Body::default().word(1).word(9).long(1_700_000_000);
    let stats = vec![MemoryStat { tag: 9, value: 1_700_000_000 }];
    let arguments = of_domain().word(64).word(0);
    check(Call::MemoryStats(domain()), 159, arguments, answer, Reply::MemoryStats(stats));
}

#[test]
fn a_host_and_all_its_domains_are_looked_at() {
    let none = Body::default;
    let open = Call::Open { uri: "qemu:///system".into(), is_read_only: true };
    check(open, 1, none().word(1).text("qemu:///system").word(1), none(), Reply::Done);
    // The processor's name takes 32 words.
    let model = Body(vec![0; 128]);
    let mut answer = model.clone().long(16 << 20).word(8);
    answer.0.extend([0; 20]);
    let info = NodeInfo { memory_kib: 16 << 20, cpus: 8 };
    check(Call::NodeInfo, 6, none(), answer, Reply::NodeInfo(info));
    let value = |name: &str, value| Value { name: name.into(), value };
    let answer = none().word(1).text("idle").long(7).word(4);
    let stats = Reply::NodeStats { count: 4, values: vec![value("idle", 7)] };
    let arguments = none().word(u32::MAX).word(4).word(0);
    check(Call::NodeCpuStats { count: 4 }, 227, arguments, answer, stats);
    let arguments = none().word(0).word(u32::MAX).word(0);
    let stats = Reply::NodeStats { count: 4, values: vec![] };
    let call = Call::NodeMemoryStats { count: 0 };
    check(call, 228, arguments, none().word(0).word(4), stats);
    // A value of each type: two of them are not whole numbers, and one is negative.
    let params = none().word(8);
    let params = params.text("a").word(1).word(3).text("b").word(2).word(u32::MAX);
    let params = params.text("c").word(3).long(5).text("d").word(4).long(u64::MAX);
    let params = params.text("e").word(5).long(1).text("f").word(6).word(1);
    let params = params.text("g").word(7).text("text").text("h").word(1).word(u32::MAX);
    let answer = Body([none().word(1).domain().0, params.0].concat());
    let values = [("a", 3), ("b", u32::MAX.into()), ("c", 5), ("d", u64::MAX), ("f", 1)]
        .map(|(n, v)| value(n, v));
    let stats = DomainStats { domain: domain(), values: values.to_vec() };
    let arguments = none().word(1).domain().word(0x37).word(1 << 29);
    check(Call::Stats(vec![domain()]), 344, arguments, answer, Reply::Stats(vec![stats]));
}

#[test]
fn a_domain_is_changed() {
    let call = Call::SetMemory { domain: domain(), memory_kib: 1 << 33 };
    let arguments = Body::default().domain().long(1 << 33).word(1);
    check(call, 204, arguments, Body::default(), Reply::Done);
    let call = Call::SetStatsPeriod { domain: domain(), period_seconds: 1 };
    let arguments = Body::default().domain().word(1).word(1);
    check(call, 308, arguments, Body::default(), Reply::Done);
}

#[test]
fn events_arrive_between_answers() {
    let mut client = Client::new();
    let with = |body: Body| Body::default().word(5).domain().0.into_iter().chain(body.0).collect();
    let mut tell = |procedure, rest: Body| heard(&mut client, &event(procedure, &Body(with(rest))));
    let stopped = Event::Lifecycle { domain: domain(), what: Lifecycle::Stopped, detail: 1 };
    let got = tell(318, Body::default().word(5).word(1));
    assert_eq!(got, [Ok(Incoming::Event(stopped))]);
    let got = tell(331, Body::default().long(65536));
    let change = Event::BalloonChange { domain: domain(), actual_kib: 65536 };
    assert_eq!(got, [Ok(Incoming::Event(change))]);
    let got = tell(319, Body::default());
    assert_eq!(got, [Ok(Incoming::Event(Event::Reboot(domain())))]);
    let got = tell(359, Body::default().word(2));
    assert_eq!(got, [Ok(Incoming::Event(Event::MigrationIteration(domain())))]);
    let got = tell(363, Body::default().word(0));
    assert_eq!(got, [Ok(Incoming::Event(Event::JobCompleted(domain())))]);
    let got = tell(438, Body::default().text("ua-virtiomem").long(1 << 30));
    assert_eq!(got, [Ok(Incoming::Event(Event::MemoryDeviceSize(domain())))]);
    assert_eq!(tell(348, Body::default()), [], "never asked for");
    let short = Error::Body { what: "domain_event_callback_lifecycle", member: "detail" };
    assert_eq!(tell(318, Body::default().word(5)), [Err(short)]);
}

#[test]
fn an_error_is_its_code_and_its_message() {
    let mut client = Client::new();
    let ticket = client.ask(Call::State(domain())).unwrap();
    let body = Body::default().word(42).word(10).word(1).text("no domain").word(2).word(0);
    let got = heard(&mut client, &message([PROGRAM, 1, 212, 1, 1, 1], &body));
    let failure = Failure { code: Some(Failure::NO_DOMAIN), message: "no domain".into() };
    assert_eq!(got, [Ok(Incoming::Reply { ticket, outcome: Err(failure) })]);
}

#[test]
fn answers_find_their_calls_in_any_order_and_once_only() {
    let mut client = Client::new();
    let tickets =
        [Call::State(domain()), Call::AuthList, Call::Xml(domain())].map(|c| client.ask(c));
    let answer = reply(66, 2, &Body::default().word(0));
    let got = heard(&mut client, &answer);
    let outcome = Ok(Reply::Auths(vec![]));
    assert_eq!(got, [Ok(Incoming::Reply { ticket: tickets[1].clone().unwrap(), outcome })]);
    assert_eq!(heard(&mut client, &answer), [Err(Error::UnknownSerial { serial: 2 })]);
    // An answer to another kind of call under an open number is refused, because it would be
    // misread.
    let other = reply(14, 1, &Body::default().text("<domain/>"));
    assert_eq!(heard(&mut client, &other), [Err(Error::UnknownSerial { serial: 1 })]);
    assert_eq!(client.open_calls(), 2);
}

#[test]
fn an_answer_too_long_fails_its_call_and_no_other() {
    let mut client = Client::new();
    let ticket = client.ask(Call::ListActive).unwrap();
    let next = client.ask(Call::AuthList).unwrap();
    let mut stream = reply(273, 1, &Body(vec![0; MESSAGE_BYTES_MAX]));
    stream.0.extend(reply(66, 2, &Body::default().word(0)).0);
    let got = heard(&mut client, &stream);
    let [Ok(Incoming::Reply { ticket: first, outcome: Err(failure) }), Ok(second)] = &got[..]
    else {
        panic!("{got:?}");
    };
    assert_eq!(*first, ticket);
    assert!(failure.message.contains("more than"), "{failure:?}");
    assert_eq!(second, &Incoming::Reply { ticket: next, outcome: Ok(Reply::Auths(vec![])) });
}

#[test]
fn pings_are_answered_but_not_hoarded() {
    let mut client = Client::new();
    let ping = message([KEEPALIVE, 1, 1, 2, 0, 0], &Body::default());
    let pong = message([KEEPALIVE, 1, 2, 2, 0, 0], &Body::default());
    assert_eq!(heard(&mut client, &ping), []);
    assert_eq!(client.output(), pong.0);
    for _ in 0..1000 {
        heard(&mut client, &ping);
    }
    let waiting = client.output().len();
    assert!(waiting <= 8 * pong.0.len(), "{waiting} bytes wait");
    client.advance(waiting);
    heard(&mut client, &ping);
    assert_eq!(client.output(), pong.0);
}

#[test]
fn strangers_are_named_and_cost_one_message() {
    let mut client = Client::new();
    let none = Body::default();
    for (words, member, value) in [
        ([1, 1, 1, 1, 1, 0], "program", 1),
        ([PROGRAM, 2, 1, 1, 1, 0], "version", 2),
        ([PROGRAM, 1, 1, 0, 1, 0], "type", 0),
    ] {
        let got = heard(&mut client, &message(words, &none));
        assert_eq!(got, [Err(Error::Foreign { member, value })]);
    }
    let lost = heard(&mut client, &Body::default().word(3));
    assert_eq!(lost, [Err(Error::Framing { length_bytes: 3 })]);
    assert!(lost[0].as_ref().is_err_and(Error::is_fatal));
}

#[test]
fn no_more_calls_are_open_than_a_daemon_that_hangs_may_cost() {
    let mut client = Client::new();
    for _ in 0..PENDING_MAX {
        client.ask(Call::AuthList).unwrap();
    }
    assert_eq!(client.ask(Call::AuthList), Err(Error::Backlog { limit: PENDING_MAX }));
}

/// The bounds as in SPECIFICATION.md, independent of the constants in the code.
#[test]
fn libvirts_bounds_are_2_mib_16384_domains_and_64_calls() {
    let mut client = Client::new();
    for call in 0..64 {
        assert!(client.ask(Call::AuthList).is_ok(), "call {call}");
    }
    assert!(client.ask(Call::AuthList).is_err(), "the 65th");

    let listed = |count: u32| {
        let mut client = Client::new();
        client.ask(Call::ListActive).unwrap();
        let list = (0..count).fold(Body::default().word(count), |body, _| body.domain());
        let got = heard(&mut client, &reply(273, 1, &list.word(count)));
        matches!(&got[..], [Ok(Incoming::Reply { outcome: Ok(Reply::Domains(all)), .. })]
            if all.len() == count as usize)
    };
    assert!(listed(16_384));
    assert!(!listed(16_385));

    let is_taken = |bytes: usize| {
        let mut client = Client::new();
        client.ask(Call::Xml(domain())).unwrap();
        let text = "x".repeat(bytes - HEADER_BYTES - 4);
        let whole = reply(14, 1, &Body::default().text(&text));
        assert_eq!(whole.0.len(), bytes);
        let got = heard(&mut client, &whole);
        // A text of this length is refused in either case: by its own bound, or with the whole
        // message.
        let [Ok(Incoming::Reply { outcome: Err(failure), .. })] = &got[..] else {
            panic!("{got:?}")
        };
        !failure.message.contains("which is more than 2097152")
    };
    assert!(is_taken(2 << 20));
    assert!(!is_taken((2 << 20) + 4));
}
