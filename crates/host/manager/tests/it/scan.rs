//! The requests for a guest's tasks and files, through a manager with a manual clock. The client is
//! at the control socket, and the test acts as the daemon.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::scene::{Scene as Host, Sleeper};
use base::Bytes;
use hypervisor::{Fake, Found, Id, Pause, ProcessId, RunState, balloon_row};
use manager::control::{Answer, Ask, POOL, Request, Scanned, decode_answer, encode_request};
use model::{GuestField, Row};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;
use wire::{
    Chunk, Decoder, File, Hello, Memory, PoolKind, Processes, Scan, Task, ToGuest, ToHost, Totals,
};

struct Scene {
    host: Host,
    daemon: UnixStream,
    decoder: Decoder<ToGuest>,
    client: BufReader<UnixStream>,
    guest: Id,
}

impl Scene {
    /// Returns a manager of one guest with a daemon that has sent its hello.
    fn new() -> Scene {
        Scene::with(Fake::found("g1", Bytes::mib(512)), None)
    }

    /// Returns a manager of this guest. The guest's balloon reported `told` before the daemon
    /// started.
    fn with(found: Found, told: Option<Row<GuestField>>) -> Scene {
        let host = Host::new("");
        let port = host.dir.join("g1.port");
        let listener = UnixListener::bind(&port).unwrap();
        let guest = host.fake.add(Found { port: Some(port), ..found });
        host.fake.set_stats(guest, told);
        host.fake.add(Fake::found("mute", Bytes::mib(512)));
        let client = UnixStream::connect(host.dir.join("host.sock")).unwrap();
        client.set_nonblocking(true).unwrap();
        let mut scene = Scene {
            host,
            // A placeholder until the manager has connected.
            daemon: UnixStream::pair().unwrap().0,
            decoder: Decoder::new(),
            client: BufReader::new(client),
            guest,
        };
        // Time enough for the balloon's report.
        scene.host.run(3_000);
        (scene.daemon, _) = listener.accept().unwrap();
        scene.daemon.set_nonblocking(true).unwrap();
        scene.send(&ToHost::Hello(Hello {
            boot_id: [1; 16],
            cpus_present: 1,
            update_ms: 1000,
            pool: PoolKind::None,
            reply: true,
            version: "0".into(),
        }));
        scene.host.run(500);
        scene
    }

    fn send(&mut self, message: &ToHost) {
        let mut frame = Vec::new();
        wire::encode(message, &mut frame);
        self.daemon.write_all(&frame).unwrap();
    }

    /// Returns the scan requests received by the daemon since the last call.
    fn asked(&mut self) -> Vec<Scan> {
        let all = self.heard().into_iter();
        all.filter_map(|m| if let ToGuest::Scan(scan) = m { Some(scan) } else { None }).collect()
    }

    /// Returns all messages received by the daemon since the last call.
    fn heard(&mut self) -> Vec<ToGuest> {
        let mut bytes = [0; 4096];
        while let Ok(count) = self.daemon.read(&mut bytes) {
            self.decoder.feed(&bytes[..count]);
        }
        std::iter::from_fn(|| self.decoder.next()).collect()
    }

    fn ask(&mut self, id: u64, guest: &str) {
        self.request(id, Ask::Scan { guest: guest.to_owned() });
    }

    fn request(&mut self, id: u64, ask: Ask) {
        let line = encode_request(&Request { id, ask });
        self.client.get_mut().write_all(&line).unwrap();
        self.host.run(100);
    }

    /// Returns the received response, if any: its number, and the scan or the failure's text.
    fn answer(&mut self) -> Option<(u64, Result<Scanned, String>)> {
        let (id, answer) = self.response()?;
        let answer = match answer {
            Ok(Answer::Scan(scanned)) => Ok(*scanned),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure),
        };
        Some((id, answer))
    }

    /// Returns the received response, if any: its number, and the answer or the failure's text.
    fn response(&mut self) -> Option<(u64, Result<Answer, String>)> {
        let mut line = Vec::new();
        match self.client.read_until(b'\n', &mut line) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            read => assert!(read.unwrap() > 0),
        }
        let (id, answer) = decode_answer(line.trim_ascii_end()).unwrap();
        Some((id.unwrap(), answer.map_err(|failure| failure.to_string())))
    }

    fn part(&mut self, sequence: u32, part: u8, tid: u32, last: bool) {
        let task = Task { tid, pid: tid, dispatches: Some(u64::from(tid)), ..Task::default() };
        let totals = Totals { uptime_ms: Some(self.host.hand.get()), ..Totals::default() };
        let tasks = vec![task];
        let part = Processes { sequence, previous: 0, part, last, totals, tasks };
        self.send(&ToHost::Processes(part));
        self.host.run(100);
    }
}

#[test]
fn parts_are_joined_and_all_waiting_clients_are_answered() {
    let mut scene = Scene::new();
    assert_eq!(scene.asked(), [], "there was no request");
    scene.ask(1, "g1");
    scene.ask(2, "g1");
    let asked = scene.asked();
    assert_eq!(asked.len(), 1, "one request for two clients");
    scene.part(asked[0].sequence, 0, 7, false);
    assert_eq!(scene.answer(), None);
    scene.part(asked[0].sequence, 1, 8, true);
    for id in [1, 2] {
        let (to, scanned) = scene.answer().unwrap();
        let scanned = scanned.unwrap();
        assert_eq!((to, scanned.guest.as_str(), scanned.asked.scans), (id, "g1", 1));
        let tids: Vec<u32> = scanned.tasks.iter().map(|task| task.tid).collect();
        assert_eq!(tids, [8, 7], "most dispatches come first");
    }
    // A client soon afterwards gets the same response, and the guest gets no request.
    scene.ask(3, "g1");
    assert_eq!(scene.answer().unwrap().1.unwrap().sequence, asked[0].sequence);
    assert_eq!(scene.asked(), []);
    scene.host.run(11_000);
    scene.ask(4, "g1");
    assert_eq!(scene.asked().len(), 1);
    scene.host.run(120_000);
    assert_eq!(scene.asked(), [], "without a record there are no regular requests");
}

#[test]
fn silent_daemon_is_reported_after_a_timeout() {
    let mut scene = Scene::new();
    scene.ask(1, "mute");
    let (_, answer) = scene.answer().unwrap();
    assert!(answer.unwrap_err().contains("No daemon in mute is connected"));
    scene.ask(2, "nobody");
    assert!(scene.answer().unwrap().1.unwrap_err().contains("There is no guest nobody"));
    scene.ask(3, "g1");
    let sequence = scene.asked()[0].sequence;
    // This is a response to another request, out of order.
    scene.part(sequence + 1, 0, 7, true);
    scene.host.run(4_000);
    assert_eq!(scene.answer(), None);
    scene.host.run(2_000);
    let (id, answer) = scene.answer().unwrap();
    assert_eq!(id, 3);
    assert!(answer.unwrap_err().contains("has not responded for 5000 ms"));
    scene.part(sequence, 0, 7, true);
    assert_eq!(scene.answer(), None, "a late response goes nowhere");
}

#[test]
fn files_that_rules_read_are_requested_for_a_client() {
    let mut scene = Scene::new();
    let capture = |guest: &str| Ask::Capture { guest: guest.to_owned() };
    scene.request(1, capture("mute"));
    let (_, refused) = scene.response().unwrap();
    assert!(refused.unwrap_err().contains("No daemon in mute is connected"));
    scene.request(2, capture("g1"));
    let heard = scene.heard().into_iter();
    let all = heard.filter_map(|m| if let ToGuest::Capture(one) = m { Some(one) } else { None });
    let asked: Vec<_> = all.collect();
    assert_eq!(asked.iter().map(|one| one.file).collect::<Vec<_>>(), File::ALL);
    for one in &asked[1..] {
        let (sequence, file, bytes) = (one.sequence, one.file, b"some text".to_vec());
        scene.send(&ToHost::Chunk(Chunk { sequence, file, offset: 0, last: true, bytes }));
    }
    scene.host.run(4_000);
    assert_eq!(scene.response(), None, "a file is missing");
    scene.host.run(2_000);
    let (id, answer) = scene.response().unwrap();
    let Ok(Answer::Capture(captured)) = answer else { panic!("{answer:?}") };
    let files = &captured.files;
    assert_eq!((id, files.len()), (2, File::ALL.len()), "the pool's size comes with the files");
    assert_eq!((files["rules"].as_str(), files[POOL].as_str()), ("some text", "0\n"));
    assert!(!files.contains_key("proc/stat"), "the file never came");
    scene.request(3, capture("g1"));
    scene.host.fake.remove(scene.guest, "it has ended");
    scene.host.run(1_000);
    let (id, answer) = scene.response().unwrap();
    assert_eq!((id, answer), (3, Err("The guest is gone".to_owned())));
}

#[test]
fn a_guest_that_goes_on_after_a_stop_is_told_the_time() {
    let mut scene = Scene::new();
    let clocks = |scene: &mut Scene| {
        let heard = scene.heard().into_iter();
        heard.filter_map(|m| if let ToGuest::Clock(time) = m { Some(time) } else { None }).collect()
    };
    for state in [RunState::Migrating, RunState::Running, RunState::Paused(Pause::ByHand)] {
        scene.host.fake.set_state(scene.guest, state);
        scene.host.run(1_000);
    }
    let told: Vec<Duration> = clocks(&mut scene);
    assert_eq!(told, [], "the guest's clock runs");
    scene.host.fake.set_state(scene.guest, RunState::Running);
    scene.host.run(1_000);
    let told: Vec<Duration> = clocks(&mut scene);
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn daemon_after_a_balloons_sample_gets_a_request_in_its_sleep() {
    let process = Sleeper::start();
    let found = Found {
        process: ProcessId::of(process.pid()),
        vcpu_tids: vec![process.pid()],
        ..Fake::found("g1", Bytes::mib(512))
    };
    let told = balloon_row(1, Bytes::mib(512), [(GuestField::BalloonFree, Some(100 << 20))]);
    let mut scene = Scene::with(found, Some(told));
    scene.host.run(2_000);
    let questions = |scene: &mut Scene| {
        let heard = scene.heard().into_iter();
        let all = heard.filter_map(|m| if let ToGuest::Sample(it) = m { Some(it) } else { None });
        all.map(|it| it.sequence).collect::<Vec<u32>>()
    };
    let asked = questions(&mut scene);
    assert!(!asked.is_empty(), "only the balloon has reported so far");
    let sequence = *asked.last().unwrap();
    scene.send(&ToHost::Memory(Memory { sequence, ..Memory::default() }));
    scene.host.run(5_000);
    assert_eq!(questions(&mut scene), [0; 0], "the guest sleeps, and the sample holds");
}
