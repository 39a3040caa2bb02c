use super::*;
use crate::config::Share;
use policy::arbiter::Clause;
use policy::ksm::Phase;
use procfs::testing::Tree;
use rustix::event::PollFlags;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

struct House {
    dir: Tree,
    server: Server,
}

impl House {
    fn new() -> House {
        House::within(Bounds::MANAGER)
    }

    fn within(bounds: Bounds) -> House {
        let dir = Tree::create();
        let server = Server::open(&dir.path().join("host.sock"), None, bounds).unwrap();
        House { dir, server }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("host.sock")
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.path()).unwrap()
    }

    /// Runs one turn in which each descriptor may be ready.
    fn turn(&mut self, now_ms: u64) -> Vec<Asked> {
        let mut asked = Vec::new();
        self.server.turn(&[], now_ms, &mut asked);
        asked
    }
}

fn line(ask: Ask) -> Vec<u8> {
    encode_request(&Request { id: 7, ask })
}

#[test]
fn requests_come_back_as_they_were_written() {
    let guest = || "a \"b\"\n\u{1b}ü".to_owned();
    let asks = [
        Ask::Ps,
        Ask::Status,
        Ask::Reload,
        Ask::Interval { processes: Whose::Everybody },
        Ask::Interval { processes: Whose::Nobody },
        Ask::Interval { processes: Whose::Guest("web1".into()) },
        Ask::Farm,
        Ask::Lend,
        Ask::Yield,
        Ask::Down,
        Ask::Logs { guest: guest() },
        Ask::Console { guest: guest() },
        Ask::Capture { guest: guest() },
        Ask::Exec { guest: guest(), command: "ls 'a b'".into() },
        Ask::Park { guest: guest() },
        Ask::Wake { guest: guest() },
        Ask::Inputs { guest: guest() },
        Ask::Scan { guest: guest() },
        Ask::Unreserve { reservation: u64::MAX },
        Ask::Reserve { mib: 512, timeout_ms: 0, hold_ms: 60_000 },
        Ask::Set { guest: guest(), change: Change::Min(Share::Permille(125)) },
        Ask::Set { guest: guest(), change: Change::Max(Share::Bytes(base::Bytes::mib(3))) },
        Ask::Set { guest: guest(), change: Change::Pin(Share::Permille(1000)) },
        Ask::Set { guest: guest(), change: Change::Shares(1) },
        Ask::Set { guest: guest(), change: Change::Release },
        Ask::Set { guest: guest(), change: Change::Manage },
    ];
    for ask in asks {
        let bytes = line(ask.clone());
        assert!(VERBS.contains(&ask.verb().as_str()), "{ask:?}");
        assert_eq!(decode_request(bytes.trim_ascii_end()), Ok(Request { id: 7, ask }));
    }
}

#[test]
fn a_wrong_request_is_answered_with_the_right_form() {
    let check = |text: &str, id: Option<u64>, message: &str| {
        let bad = decode_request(text.as_bytes()).unwrap_err();
        assert_eq!(bad.id, id, "{text}");
        assert!(bad.failure.to_string().contains(message), "{text}: {}", bad.failure);
    };
    check("ps", None, "not valid JSON at column 1");
    check("[1]", None, "object");
    check(r#"{"v":1,"do":"ps"}"#, None, "no `id`");
    check(r#"{"v":2,"id":1,"do":"ps"}"#, Some(1), "Version 2");
    check(r#"{"id":1,"do":"ps"}"#, Some(1), "no `v`");
    check(r#"{"v":1,"id":1,"do":"pss"}"#, Some(1), "is it `ps`?");
    check(r#"{"ps":true}"#, None, "the version of the protocol is 1");
    let exec = r#"{"v":1,"id":1,"do":"exec","guest":"a","command":"a\nb"}"#;
    check(exec, Some(1), "one line");
    check(r#"{"v":1,"id":1,"do":"ps","x":1}"#, Some(1), "no member `x`");
    check(r#"{"v":1,"id":1,"do":"set","guest":"a","what":"max","value":"4GB"}"#, Some(1), "4 GiB");
    check(r#"{"v":1,"id":1,"do":"set","guest":"a","what":"maxx","value":"1%"}"#, Some(1), "`max`");
    check(r#"{"v":1,"id":1,"do":"set","guest":"a","what":"shares","value":0}"#, Some(1), "from 1");
    check(r#"{"v":1,"id":1,"do":"set","guest":"","what":"release"}"#, Some(1), "empty");
    let reserve = r#"{"v":1,"id":1,"do":"reserve","mib":1,"timeout_ms":1,"hold_ms":99999999}"#;
    check(reserve, Some(1), "`hold_ms` is out of range");
    check(&"[".repeat(4000), None, "not valid JSON");
    check(&" ".repeat(LINE_MAX + 1), None, "longer");
}

#[test]
fn request_is_answered_with_its_number_and_has_its_peer() {
    let mut house = House::new();
    let mut client = house.connect();
    client.write_all(&line(Ask::Ps)).unwrap();
    client.write_all(b"\nnonsense\n").unwrap();
    let asked = house.turn(0);
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].id, &asked[0].ask), (7, &Ask::Ps));
    assert_eq!(asked[0].peer.pid, std::process::id());
    assert_eq!(asked[0].peer.uid, rustix::process::getuid().as_raw());
    let entitled = Entitled { guest: "g".into(), shares: 3, ..Entitled::default() };
    house.server.answer(asked[0].client, 7, &Ok(Answer::Set(entitled.clone())), 0);
    let mut lines = BufReader::new(client).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("not valid JSON"), "{first}");
    let second = lines.next().unwrap().unwrap();
    let answer = decode_answer(second.as_bytes()).unwrap();
    assert_eq!(answer, (Some(7), Ok(Answer::Set(entitled))));
}

#[test]
fn every_answer_comes_back_as_it_was_written() {
    let status = Status { pass_us: Some(7), ..Status::default() };
    let answers = [
        Ok(Answer::Ps(Ps {
            host: HostRow::default(),
            ksm: KsmRow::default(),
            guests: vec![GuestRow { name: "a".into(), ..GuestRow::default() }],
        })),
        Ok(Answer::Status(Box::new(status))),
        Ok(Answer::Reserve(Reserved { reservation: 4, mib: 5, hold_ms: 6 })),
        Ok(Answer::Inputs(Inputs {
            values: [("guest.free".to_owned(), vec![Some(1.5), None])].into(),
            ..Inputs::default()
        })),
        Ok(Answer::Reload(Reloaded::default())),
        Ok(Answer::Yield {}),
        Ok(Answer::Farm(FarmTable {
            farm: Some("f".into()),
            pid: 7,
            uptime_ms: 8,
            guests: vec![FarmGuest {
                ports: vec![ServedPort { guest: 80, host: 18_000 }],
                ..FarmGuest::default()
            }],
        })),
        Ok(Answer::Logs(ConsoleLog { text: "a\n".into(), lost_bytes: 9 })),
        Ok(Answer::Console {}),
        Ok(Answer::Capture(Captured::default())),
        Ok(Answer::Lend(Lent { classes: [("a".to_owned(), "b".to_owned())].into() })),
        Ok(Answer::Down { guests: 3 }),
        Err(Failure::new("No").help("yes")),
    ];
    for answer in answers {
        let bytes = encode_answer(Some(1), &answer);
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(decode_answer(&bytes).unwrap(), (Some(1), answer));
    }
}

/// The words that clients of other versions read and write. These lines must never change.
#[test]
fn the_words_of_the_protocol_stay_as_they_are() {
    let line = |row: &GuestRow| serde_json::to_string(row).unwrap();
    let row = GuestRow {
        mode: GuestMode::Pinned,
        state: GuestRunState::Migrating,
        action: Some(SizeAction::Grow),
        clause: Some(Clause::SetPoint),
        ..GuestRow::default()
    };
    let text = line(&row);
    let expected = concat!(
        r#"{"id":0,"name":"","uuid":"","pid":null,"source":"","class":null,"mode":"pinned","#,
        r#""state":"migrating","unusable":null,"daemon":false,"memory_bytes":0,"#
    );
    assert!(text.starts_with(expected), "{text}");
    let decision = r#""age_ms":null,"action":"grow","clause":"setpoint","reason":null,"#;
    assert!(text.contains(decision), "{text}");
    assert_eq!(serde_json::from_str::<GuestRow>(&text).unwrap(), row);
    // A clause of another version is read as `None`, and the rest of the row still counts.
    let other = text.replace("setpoint", "of-tomorrow");
    let row = serde_json::from_str::<GuestRow>(&other).unwrap();
    assert_eq!((row.clause, row.action), (None, Some(SizeAction::Grow)));
    let text = line(&GuestRow { clause: None, action: None, ..row });
    assert!(text.contains(r#""action":null,"clause":null,"#), "{text}");
    let phases = [Phase::Off, Phase::Apart, Phase::Hard, Phase::Steady, Phase::Slow, Phase::Rest];
    let ksm = phases.map(|phase| KsmRow { phase: Some(phase), ..KsmRow::default() });
    let text = serde_json::to_string(&ksm).unwrap();
    for word in ["off", "apart", "hard", "steady", "slow", "rest"] {
        assert!(text.contains(&format!(r#""runs":null,"phase":"{word}","gain_bytes""#)), "{text}");
    }
    assert_eq!(serde_json::from_str::<[KsmRow; 6]>(&text).unwrap(), ksm);
    let words = |all: &[&str], of_name: fn(&str) -> Option<String>| {
        all.iter().all(|word| of_name(word).as_deref() == Some(*word))
    };
    let modes = ["managed", "pinned", "released"];
    assert!(words(&modes, |word| GuestMode::from_name(word).map(|mode| mode.to_string())));
    let states = ["running", "paused", "migrating", "dead", "silent"];
    assert!(words(&states, |word| GuestRunState::from_name(word).map(|state| state.to_string())));
}

#[test]
fn flood_endless_line_and_silence_close_only_their_connection() {
    let mut house = House::new();
    let mut good = house.connect();
    let mut flood = house.connect();
    let mut endless = house.connect();
    let silent = house.connect();
    house.turn(0);
    assert_eq!(house.server.clients(), 4);
    endless.write_all(&vec![b'x'; 2 * Bounds::MANAGER.line]).unwrap();
    flood.set_nonblocking(true).unwrap();
    let mut asked = Vec::new();
    for _ in 0..1000 {
        let _ = flood.write(&line(Ask::Status).repeat(8));
        for request in house.turn(1) {
            house.server.answer(request.client, request.id, &Ok(Answer::Unreserve {}), 1);
            asked.push(request);
        }
        let _ = flood.read(&mut [0; 4096]);
    }
    assert!(asked.len() <= 100, "{} requests at once", asked.len());
    let notes = house.server.take_notes().join("\n");
    assert!(notes.contains("too many requests") && notes.contains("no end of line"), "{notes}");
    assert_eq!(house.server.clients(), 2);
    assert_eq!(house.server.next_ms(), 60_000);
    good.write_all(&line(Ask::Ps)).unwrap();
    assert_eq!(house.turn(59_999).len(), 1);
    house.turn(60_000);
    assert_eq!(house.server.clients(), 1, "an open request is waited for");
    drop(silent);
}

#[test]
fn a_slow_reader_is_disconnected_and_its_queue_is_bounded() {
    let mut house = House::new();
    let mut deaf = house.connect();
    deaf.write_all(&line(Ask::Ps).repeat(20)).unwrap();
    let big = GuestRow { name: "x".repeat(200_000), ..GuestRow::default() };
    let ps = Ps { host: HostRow::default(), ksm: KsmRow::default(), guests: vec![big] };
    let answer = Ok(Answer::Ps(ps));
    let mut total = 0;
    for _ in 0..10 {
        for request in house.turn(0) {
            total += 1;
            house.server.answer(request.client, request.id, &answer, 0);
        }
    }
    assert!(total < 20, "the client is not read while answers wait");
    assert_eq!(house.server.clients(), 1);
    house.turn(9_999);
    assert_eq!(house.server.clients(), 1);
    house.turn(10_000);
    assert_eq!(house.server.clients(), 0);
    assert!(house.server.take_notes()[0].contains("did not read its responses"));
}

#[test]
fn the_idlest_client_makes_room_and_those_that_wait_do_not() {
    let mut house = House::new();
    let clients: Vec<_> = (0..CLIENTS_MAX).map(|_| house.connect()).collect();
    for now in 0..10 {
        house.turn(now);
    }
    assert_eq!(house.server.clients(), CLIENTS_MAX);
    let mut late = house.connect();
    late.write_all(&line(Ask::Ps)).unwrap();
    assert_eq!(house.turn(20).len(), 1, "the late client has a place");
    assert_eq!(house.server.clients(), CLIENTS_MAX);
    for mut client in &clients {
        let _ = client.write_all(&line(Ask::Ps));
    }
    while !house.turn(21).is_empty() {}
    let refused = house.connect();
    house.turn(22);
    let mut text = String::new();
    BufReader::new(refused).read_line(&mut text).unwrap();
    assert!(text.contains("Too many clients"), "{text}");
}

#[test]
fn half_closed_client_still_gets_its_answer() {
    let mut house = House::new();
    let mut client = house.connect();
    client.write_all(&line(Ask::Ps)).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let asked = house.turn(0);
    house.turn(1);
    house.server.answer(asked[0].client, asked[0].id, &Ok(Answer::Unreserve {}), 1);
    let mut text = String::new();
    house.turn(2);
    client.read_to_string(&mut text).unwrap();
    assert!(text.contains("unreserve"), "{text}");
    assert_eq!(house.server.clients(), 0);
    // A client that has closed its connection completely is dropped at once, and causes no more
    // wake-ups.
    let gone = house.connect();
    house.turn(3);
    drop(gone);
    let mut asked = Vec::new();
    let mut set = reactor::PollSet::new();
    house.server.fds(&mut set);
    let ready = set.wait(1_000).unwrap();
    assert!(ready.all().iter().any(|event| event.flags.contains(PollFlags::HUP)));
    house.server.turn(ready.all(), 4, &mut asked);
    assert_eq!(house.server.clients(), 0);
}

#[test]
fn socket_has_one_manager_and_is_replaced_after_its_death() {
    let house = House::new();
    let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&house.path()), 0o600);
    let error = Server::open(&house.path(), None, Bounds::MANAGER).unwrap_err();
    let expected =
        format!("Another `pinhead host` (pid {}) manages this machine", std::process::id());
    assert_eq!(error.to_string(), expected);
    let path = house.path();
    let House { dir, server } = house;
    drop(server);
    assert!(!path.exists());
    // A dead manager leaves its socket, without a lock.
    drop(UnixListener::bind(&path).unwrap());
    let group = rustix::process::getgid().as_raw().to_string();
    let server = Server::open(&path, Some(&group), Bounds::MANAGER).unwrap();
    assert_eq!(mode(&path), 0o660);
    drop(server);
    dir.file("host.sock", "text");
    assert!(matches!(Server::open(&path, None, Bounds::MANAGER), Err(Error::NotASocket { .. })));
    let error = Server::open(&path, Some("no such group"), Bounds::MANAGER).unwrap_err();
    assert!(error.to_string().contains("groupadd"), "{error}");
}

#[test]
fn errors_of_the_command_line_explain_what_is_wrong() {
    let dir = Tree::create();
    let path = dir.path().join("host.sock");
    let asked = |path: &PathBuf| ask(path, &Ask::Ps, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(asked(&path), Error::NoManager { .. }));
    let listener = UnixListener::bind(&path).unwrap();
    assert!(matches!(asked(&path), Error::NoAnswer { .. }));
    drop(listener);
    assert!(matches!(asked(&path), Error::NoManager { .. }), "the manager is dead");

    let mut house = House::new();
    let path = house.path();
    let caller = std::thread::spawn(move || ask(&path, &Ask::Ps, Duration::from_secs(30)));
    let asked = loop {
        if let Some(asked) = house.turn(0).pop() {
            break asked;
        }
        assert!(!caller.is_finished(), "the caller has given up");
    };
    house.server.answer(asked.client, asked.id, &Err(Failure::new("Not now")), 0);
    assert!(matches!(caller.join().unwrap(), Err(Error::Refused(f)) if f.message == "Not now"));
    assert!(Error::NoPlace { why: "x".into() }.to_string().ends_with("x, or use --socket PATH"));
}

/// The limits of SPECIFICATION.md, independent of the constants in the code.
#[test]
fn a_client_may_ask_50_times_a_second_and_100_times_at_once() {
    let mut house = House::new();
    let mut client = house.connect();
    house.turn(0);
    // Sends `count` requests, answers each at once, and returns how many were received.
    let mut heard = |house: &mut House, count: usize, now_ms: u64| {
        let mut all = 0;
        let _ = client.write_all(&line(Ask::Unreserve { reservation: 1 }).repeat(count));
        for _ in 0..count {
            for request in house.turn(now_ms) {
                all += 1;
                let done = Ok(Answer::Unreserve {});
                house.server.answer(request.client, request.id, &done, now_ms);
            }
            client.set_nonblocking(true).unwrap();
            let _ = client.read(&mut [0; 65_536]);
            client.set_nonblocking(false).unwrap();
        }
        all
    };
    assert_eq!(heard(&mut house, 100, 0), 100);
    for second in 1..=20 {
        assert_eq!(heard(&mut house, 50, second * 1_000), 50, "in second {second}");
    }
    assert_eq!(house.server.clients(), 1);
    assert_eq!(heard(&mut house, 51, 21_000), 50);
    assert_eq!(house.server.clients(), 0, "one more than that is too often");
}

#[test]
fn there_are_32_places_and_8_mib_of_answers_may_wait() {
    let mut house = House::new();
    let clients: Vec<_> = (0..40).map(|_| house.connect()).collect();
    (0..50).for_each(|now_ms| drop(house.turn(now_ms)));
    assert_eq!(house.server.clients(), 32);
    drop(clients);

    let is_kept = |bytes: usize| {
        let mut house = House::new();
        let mut deaf = house.connect();
        deaf.write_all(&line(Ask::Ps).repeat(8)).unwrap();
        let asked: Vec<_> = (0..8).flat_map(|_| house.turn(0)).collect();
        assert_eq!(asked.len(), 8);
        let big = GuestRow { name: "x".repeat(bytes), ..GuestRow::default() };
        let ps = Ps { host: HostRow::default(), ksm: KsmRow::default(), guests: vec![big] };
        for request in asked {
            house.server.answer(request.client, request.id, &Ok(Answer::Ps(ps.clone())), 0);
        }
        house.turn(1);
        house.server.clients() == 1
    };
    assert!(is_kept(1 << 20), "a part waits in the kernel");
    assert!(!is_kept(1_300_000), "ten million bytes");
}

#[test]
fn connection_goes_on_as_a_stream_when_it_is_taken() {
    let mut house = House::new();
    let mut client = house.connect();
    client.write_all(&line(Ask::Console { guest: "g1".into() })).unwrap();
    let asked = house.turn(0);
    let mut stream = house.server.take(asked[0].client).unwrap();
    assert_eq!((house.server.clients(), house.server.take_left()), (0, vec![asked[0].client]));
    stream.write_all(b"login: ").unwrap();
    // The server no longer disconnects the stream.
    house.turn(1_000_000);
    let mut text = [0; 7];
    client.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"login: ");
    assert!(house.server.take(asked[0].client).is_none(), "once");
}

#[test]
fn lease_outlives_its_client_unless_half_an_answer_is_left() {
    let mut house = House::new();
    let mut lent = |answer: usize| {
        let mut client = house.connect();
        client.write_all(&line(Ask::Lend)).unwrap();
        let asked = house.turn(0);
        let lease = house.server.lease(asked[0].client).unwrap();
        let log = ConsoleLog { text: "x".repeat(answer), lost_bytes: 0 };
        house.server.answer(asked[0].client, 7, &Ok(Answer::Logs(log)), 0);
        house.server.hang_up();
        client.set_nonblocking(true).unwrap();
        let ended = client.read_to_end(&mut Vec::new()).is_ok();
        drop(lease);
        ended
    };
    assert!(!lent(10), "the connection stays open");
    assert!(lent(4 << 20), "the client sees the end");
}

#[test]
fn input_after_a_lease_is_for_its_holder() {
    let mut house = House::new();
    let mut client = house.connect();
    client.write_all(&line(Ask::Lend)).unwrap();
    let asked = house.turn(0);
    let mut lease = house.server.lease(asked[0].client).unwrap();
    client.write_all(b"for the holder\n").unwrap();
    assert!(house.turn(1).is_empty());
    house.server.answer(asked[0].client, 7, &Ok(Answer::Lend(Lent::default())), 1);
    (2..9).for_each(|now_ms| assert!(house.turn(now_ms).is_empty()));
    let mut kept = [0; 64];
    let count = lease.read(&mut kept).unwrap();
    assert_eq!(&kept[..count], b"for the holder\n");
    let count = client.read(&mut kept).unwrap();
    assert!(kept[..count].starts_with(b"{\"id\":7,\"ok\""), "only the answer comes");
}

#[test]
fn farm_takes_longer_lines_and_more_clients_than_a_manager() {
    let heard = |bounds| {
        let mut house = House::within(bounds);
        let mut clients: Vec<_> = (0..40).map(|_| house.connect()).collect();
        (0..50).for_each(|now_ms| drop(house.turn(now_ms)));
        let kept = house.server.clients();
        let ask = Ask::Exec { guest: "g1".into(), command: "x".repeat(60_000) };
        let last = clients.last_mut().unwrap();
        last.write_all(&line(ask)).unwrap();
        (kept, (0..50).map(|_| house.turn(50).len()).sum())
    };
    assert_eq!(heard(Bounds::FARM), (40, 1));
    assert_eq!(heard(Bounds::MANAGER), (32, 0));
}
