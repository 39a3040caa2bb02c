//! A fake daemon at a separate socket, driven by the clock of the test.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use base::Bytes;
use model::GuestField as G;

use super::Libvirt;
use crate::{Event, Hypervisor, Id, IdSource, Machine, RunState, balloon_row};
use procfs::testing::Tree;

const URI: &str = "qemu:///system";
const XML: &str = "<memory>SIZE</memory><vcpu current='1'>2</vcpu><devices><memballoon \
                   model='virtio' autodeflate='on'/></devices></domain>";

const OPEN: i32 = 1;
const GET_XML: i32 = 14;
const GET_INFO: i32 = 16;
const AUTH_LIST: i32 = 66;
const SUSPEND: i32 = 34;
const STATS: i32 = 159;
const SET_MEMORY: i32 = 204;
const GET_STATE: i32 = 212;
const CONTROL: i32 = 229;
const LIST: i32 = 273;
const SET_PERIOD: i32 = 308;
const EVENT_LIFECYCLE: i32 = 318;
const EVENT_REBOOT: i32 = 319;
const EVENT_BALLOON: i32 = 331;
const EVENT_MEMORY_DEVICE: i32 = 438;
const REGISTER: i32 = 316;

fn words(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = words(&[text.len() as u32]);
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Encodes a domain, named by its number.
fn domain(number: u8, id: i32) -> Vec<u8> {
    let mut bytes = text(&format!("g{number}"));
    bytes.extend([number; 16]);
    bytes.extend(id.to_be_bytes());
    bytes
}

/// The daemon, and our side of the connection.
struct Scene {
    tree: Tree,
    listener: Option<UnixListener>,
    peers: Vec<UnixStream>,
    /// Bytes of an incomplete call.
    partial: Vec<u8>,
    /// Domains by number, with their ids.
    domains: BTreeMap<u8, i32>,
    /// Guests with a hung hypervisor, which never answer calls that reach it.
    stuck: Vec<u8>,
    /// A call that is refused, with the reason.
    refuse: Option<(i32, &'static str)>,
    /// A call of the connection that is never answered.
    silent: Option<i32>,
    auth: u32,
    /// Maximum memory and current memory of each domain.
    max_kib: u32,
    memory_kib: u32,
    /// Sizes that were set for balloons.
    targets_kib: Vec<u64>,
    /// Number of further domains in the list.
    others: u16,
    /// Description of each domain, without the end of its devices.
    xml: &'static str,
    /// Configured description of each domain, and the number of requests for it.
    configured: &'static str,
    configured_calls: usize,
    /// State of each domain, and its reason.
    state: [u32; 2],
    attached: &'static str,
    /// Second of the guests' last statistics. Setting a period advances this second.
    stats_s: u64,
    calls: Vec<i32>,
    libvirt: Libvirt,
    now_ms: u64,
    events: Vec<Event>,
}

mod came;
mod devices;
mod lists;

impl Scene {
    fn new(domains: &[(u8, i32)]) -> Scene {
        let tree = Tree::create();
        let socket = tree.path().join("sock");
        let listener = UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        Scene {
            listener: Some(listener),
            peers: Vec::new(),
            partial: Vec::new(),
            domains: domains.iter().copied().collect(),
            stuck: Vec::new(),
            refuse: None,
            silent: None,
            auth: 0,
            max_kib: 1 << 20,
            memory_kib: 1 << 19,
            targets_kib: Vec::new(),
            others: 0,
            xml: XML,
            configured: XML,
            configured_calls: 0,
            state: [1, 1],
            attached: "</devices>",
            stats_s: 100,
            calls: Vec::new(),
            libvirt: Libvirt::at(&socket, URI, IdSource::new()),
            now_ms: 0,
            events: Vec::new(),
            tree,
        }
    }

    /// Runs both sides until no more messages are exchanged.
    fn settle(&mut self) -> Vec<Event> {
        for _ in 0..60 {
            self.libvirt.turn(None, self.now_ms, &mut self.events);
            self.serve();
        }
        std::mem::take(&mut self.events)
    }

    fn at(&mut self, now_ms: u64) -> Vec<Event> {
        self.now_ms = now_ms;
        self.settle()
    }

    fn serve(&mut self) {
        if let Some((peer, _)) = self.listener.as_ref().and_then(|it| it.accept().ok()) {
            peer.set_nonblocking(true).unwrap();
            self.peers.push(peer);
            self.partial.clear();
        }
        let Some(peer) = self.peers.last_mut() else { return };
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = peer.read(&mut buffer) {
            self.partial.extend(&buffer[..length]);
        }
        while let Some(length) = self.partial.first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            if self.partial.len() < length {
                break;
            }
            let call: Vec<u8> = self.partial.drain(..length).collect();
            self.answer(&call);
        }
    }

    fn answer(&mut self, call: &[u8]) {
        let procedure = i32::from_be_bytes(call[12..16].try_into().unwrap());
        self.calls.push(procedure);
        let reaches_guest = [STATS, SET_MEMORY, SET_PERIOD].contains(&procedure);
        let number = call.get(33).copied().unwrap_or(0);
        if self.silent == Some(procedure) || reaches_guest && self.stuck.contains(&number) {
            return;
        }
        let (status, body) = match self.refuse {
            Some((refused, why)) if refused == procedure => {
                (1, [words(&[1, 10, 1]), text(why)].concat())
            }
            _ => (0, self.body(procedure, number, call)),
        };
        let serial = u32::from_be_bytes(call[20..24].try_into().unwrap());
        let header = words(&[0x2000_8086, 1, procedure as u32, 1, serial, status]);
        self.send(&[header, body].concat());
    }

    fn body(&mut self, procedure: i32, number: u8, call: &[u8]) -> Vec<u8> {
        let period = || call[call.len() - 8..call.len() - 4].iter().any(|byte| *byte != 0);
        match procedure {
            AUTH_LIST => words(&[1, self.auth]),
            LIST => {
                let count = self.domains.len() as u32 + u32::from(self.others);
                let list = self.domains.iter().flat_map(|(number, id)| domain(*number, *id));
                let others = (0..self.others).flat_map(|number| {
                    let mut bytes =
                        [text("other"), vec![0xff; 16], words(&[number.into()])].concat();
                    bytes[12..14].copy_from_slice(&number.to_be_bytes());
                    bytes
                });
                let list = list.chain(others);
                words(&[count]).into_iter().chain(list).chain(words(&[count])).collect()
            }
            GET_XML => {
                let id = self.domains.get(&number.wrapping_sub(b'0')).copied().unwrap_or(-1);
                let is_configured = call.ends_with(&[0, 0, 0, 2]);
                self.configured_calls += usize::from(is_configured);
                let xml = if is_configured { self.configured } else { self.xml };
                let xml = xml.replace("SIZE", &self.max_kib.to_string());
                let xml = xml.replace("</devices>", self.attached);
                text(&format!("<domain id='{id}'>{xml}"))
            }
            GET_STATE => words(&self.state),
            GET_INFO => words(&[1, 0, self.max_kib, 0, self.memory_kib, 2, 0, 9]),
            CONTROL if self.stuck.contains(&number) => words(&[2, 0, 0, 5000]),
            CONTROL => words(&[0, 0, 0, 0]),
            STATS => words(&[3, 9, 0, self.stats_s as u32, 4, 0, 77, 8, 1, 0]),
            SET_PERIOD if period() => {
                self.stats_s += 1;
                Vec::new()
            }
            SET_MEMORY => {
                let size = &call[call.len() - 12..call.len() - 4];
                self.targets_kib.push(u64::from_be_bytes(size.try_into().unwrap()));
                Vec::new()
            }
            REGISTER => words(&[0]),
            _ => Vec::new(),
        }
    }

    fn send(&mut self, message: &[u8]) {
        let length = words(&[message.len() as u32 + 4]);
        // A closed connection loses the message.
        let _ = self.peers.last_mut().unwrap().write_all(&[&length, message].concat());
    }

    fn send_event(&mut self, procedure: i32, number: u8, id: i32, rest: &[u32]) {
        let header = words(&[0x2000_8086, 1, procedure as u32, 2, 0, 0, 7]);
        self.send(&[header, domain(number, id), words(rest)].concat());
    }

    fn calls(&mut self, procedure: i32) -> usize {
        self.calls.iter().filter(|call| **call == procedure).count()
    }
}

fn ids(events: &[Event]) -> Vec<Id> {
    let found = events.iter().map(|event| match event {
        Event::Found(id, _) => *id,
        other => panic!("{other:?}"),
    });
    found.collect()
}

#[test]
fn a_domain_is_found_watched_and_gone() {
    let mut scene = Scene::new(&[(1, 5)]);
    let events = scene.settle();
    let [Event::Found(id, found)] = &events[..] else { panic!("{events:?}") };
    let id = *id;
    assert_eq!((found.name.as_str(), found.uuid, found.process), ("g1", [1; 16], None));
    assert_eq!((found.memory, found.actual), (Bytes(1 << 30), Bytes(1 << 29)));
    assert!(found.can.balloon && !found.can.port);
    assert_eq!((found.can.deflate_on_oom, found.state), (Some(true), RunState::Running));
    scene.send_event(EVENT_BALLOON, 1, 5, &[0, 4096]);
    assert_eq!(scene.settle(), [Event::Actual(id, Bytes(4 << 20))]);
    scene.send_event(EVENT_REBOOT, 1, 5, &[]);
    assert_eq!(scene.settle(), [Event::Rebooted(id), Event::Actual(id, Bytes(1 << 29))]);
    scene.send_event(EVENT_LIFECYCLE, 1, 4, &[5, 1]);
    assert_eq!(scene.settle(), [], "event of an earlier domain");
    scene.send_event(EVENT_LIFECYCLE, 1, -1, &[5, 1]);
    let ended = [Event::State(id, RunState::Dead), Event::Gone(id, "it was destroyed".into())];
    assert_eq!(scene.settle(), ended);
    scene.send_event(EVENT_LIFECYCLE, 1, 6, &[2, 0]);
    let again = ids(&scene.settle());
    assert!(again.len() == 1 && again[0] != id);
}

#[test]
fn only_newest_target_is_sent_and_its_outcome_reported() {
    let mut scene = Scene::new(&[(1, 5)]);
    let id = ids(&scene.settle())[0];
    for size in [300, 200, 100] {
        scene.libvirt.set_target(id, Bytes(size << 20), 0);
    }
    let taken = |size: u64| Event::Taken(id, Bytes(size << 20));
    assert_eq!(scene.settle(), [taken(300), taken(100)]);
    scene.refuse = Some((SET_MEMORY, "no"));
    scene.libvirt.set_target(id, Bytes(1), 0);
    assert_eq!(scene.settle(), [Event::Refused(id, "no".into())]);
}

#[test]
fn statistics_are_requested_once_and_period_is_restored() {
    let mut scene = Scene::new(&[(1, 5)]);
    let id = ids(&scene.settle())[0];
    scene.libvirt.ask_stats(id, 0);
    assert_eq!(scene.settle(), []);
    let events = scene.at(scene.libvirt.next_ms());
    let [Event::Stats(_, stats)] = &events[..] else { panic!("{events:?}") };
    let values = [(G::BalloonFree, Some(77 << 10)), (G::BalloonAvailable, Some(1 << 30))];
    assert_eq!(*stats, balloon_row(101, Bytes(1 << 30), values), "capped at its memory");
    assert_eq!(scene.calls(SET_PERIOD), 2);
    assert_eq!(scene.at(20_000), []);
    assert_eq!(scene.calls(STATS), 2, "no request was made");
}

#[test]
fn a_guest_that_hangs_is_reported_and_its_neighbour_served() {
    let mut scene = Scene::new(&[(1, 5), (2, 6)]);
    let found = ids(&scene.settle());
    scene.stuck = vec![b'1'];
    for id in &found {
        scene.libvirt.set_target(*id, Bytes(1 << 20), 0);
    }
    assert_eq!(scene.settle(), [Event::Taken(found[1], Bytes(1 << 20))]);
    assert_eq!(scene.at(4_999), []);
    assert_eq!(scene.at(5_000), [Event::Answers(found[0], false)]);
    scene.libvirt.set_target(found[0], Bytes(2 << 20), 5_000);
    let why = "its hypervisor does not answer libvirt".to_owned();
    assert_eq!(scene.settle(), [Event::Refused(found[0], why)]);
}

#[test]
fn many_hung_guests_do_not_delay_the_others() {
    let mut scene = Scene::new(&[(1, 5), (2, 6), (3, 7), (4, 8), (5, 9)]);
    let found = ids(&scene.settle());
    scene.stuck = vec![b'1', b'2', b'3', b'4'];
    for id in &found {
        scene.libvirt.set_target(*id, Bytes(1 << 20), 0);
    }
    assert_eq!(scene.settle(), [], "the last has to wait");
    let events = scene.at(5_000);
    for id in &found[..4] {
        assert!(events.contains(&Event::Answers(*id, false)), "{events:?}");
    }
    let lost = "the connection to libvirt was lost".to_owned();
    assert!(events.contains(&Event::Refused(found[4], lost)), "{events:?}");
    assert!(!events.contains(&Event::Answers(found[4], false)), "{events:?}");
    scene.libvirt.set_target(found[4], Bytes(1 << 20), 5_000);
    let events = scene.settle();
    assert!(events.contains(&Event::Taken(found[4], Bytes(1 << 20))), "{events:?}");
    // The hung guests are checked by a call that does not reach the hypervisor, until they respond.
    assert_eq!(scene.at(8_000), []);
    scene.stuck = vec![b'4'];
    let events = scene.at(11_000);
    let answers: Vec<_> = found[..3].iter().map(|id| Event::Answers(*id, true)).collect();
    for event in &answers {
        assert!(events.contains(event), "{event:?} in {events:?}");
    }
    assert!(!events.contains(&Event::Answers(found[3], true)), "{events:?}");
}

/// A sent request may still be carried out, so no failure is reported for it.
#[test]
fn guest_is_not_paused_by_an_old_request() {
    let mut scene = Scene::new(&[(1, 5)]);
    let id = ids(&scene.settle())[0];
    scene.silent = Some(SUSPEND);
    scene.libvirt.set_running(id, false, 0);
    assert_eq!(scene.settle(), []);
    assert_eq!(scene.calls(SUSPEND), 1);
    scene.libvirt.set_running(id, true, 4_000);
    let why = || "its hypervisor does not answer libvirt".to_owned();
    assert_eq!(scene.at(5_000), [Event::Answers(id, false), Event::Stays(id, why())]);
    scene.silent = None;
    scene.peers.clear();
    let events = [scene.at(5_100), scene.at(7_000), scene.at(9_000), scene.at(11_000)].concat();
    assert!(events.contains(&Event::Answers(id, true)), "{events:?}");
    scene.silent = Some(SET_MEMORY);
    scene.libvirt.set_target(id, Bytes(1 << 20), 11_000);
    scene.libvirt.set_running(id, false, 11_000);
    scene.peers.clear();
    let lost = "the connection to libvirt was lost".to_owned();
    assert!(scene.at(11_100).contains(&Event::Stays(id, lost)));
    scene.at(13_000);
    assert_eq!(scene.calls(SUSPEND), 1, "the request is outdated");
}

#[test]
fn a_lost_connection_is_made_again_and_the_guests_are_the_same() {
    let mut scene = Scene::new(&[(1, 5), (2, 6), (3, 7)]);
    let found = ids(&scene.settle());
    scene.peers.clear();
    let events = scene.at(100);
    let mut expected: Vec<_> = found.iter().map(|id| Event::Answers(*id, false)).collect();
    let sock = scene.tree.path().join("sock");
    let sock = sock.display();
    expected.push(Event::Trouble(format!(
        "libvirt at {sock} has closed the connection: its guests keep their sizes until libvirt \
         is back"
    )));
    assert_eq!(events, expected);
    assert_eq!(scene.libvirt.next_ms(), 1_100);
    // While the connection was lost, one domain was restarted and another one ended.
    scene.domains = BTreeMap::from([(1, 5), (2, 16)]);
    assert!(scene.libvirt.trouble().is_some_and(|words| words.contains("closed the connection")));
    let events = scene.at(1_100);
    assert_eq!(scene.libvirt.trouble(), None);
    let again = Event::Gone(found[1], "it was restarted".into());
    let ended = Event::Gone(found[2], "libvirt does not list the domain any more".into());
    for event in [Event::Answers(found[0], true), again, ended] {
        assert!(events.contains(&event), "{event:?} in {events:?}");
    }
    let new = events.iter().find_map(|event| match event {
        Event::Found(id, _) => Some(*id),
        _ => None,
    });
    assert!(new.is_some_and(|id| !found.contains(&id)), "{events:?}");
}

#[test]
fn trouble_is_reported_once_and_retried_with_backoff() {
    let mut scene = Scene::new(&[]);
    scene.listener = None;
    let events = scene.settle();
    let [Event::Trouble(sentence)] = &events[..] else { panic!("{events:?}") };
    assert!(sentence.starts_with("Nobody listens at "), "{sentence}");
    let mut waits = Vec::new();
    for _ in 0..7 {
        let next_ms = scene.libvirt.next_ms();
        waits.push(next_ms - scene.now_ms);
        assert_eq!(scene.at(next_ms), []);
    }
    assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    std::fs::remove_file(scene.tree.path().join("sock")).unwrap();
    let events = scene.at(scene.libvirt.next_ms());
    let [Event::Trouble(sentence)] = &events[..] else { panic!("{events:?}") };
    assert!(sentence.contains("start libvirt's daemon"), "{sentence}");
}

/// Returns the problem that is reported until `at_ms` for a daemon prepared by `prepare`.
fn trouble(prepare: impl FnOnce(&mut Scene), at_ms: u64) -> String {
    let mut scene = Scene::new(&[(1, 5)]);
    prepare(&mut scene);
    let mut events = scene.settle();
    events.extend(scene.at(at_ms));
    assert!(events.contains(&Event::Trouble(scene.libvirt.trouble().unwrap())), "it persists");
    match &events[..] {
        [Event::Trouble(sentence)] => sentence.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_trouble_has_its_sentence() {
    let check = |sentence: String, part: &str| assert!(sentence.contains(part), "{sentence}");
    check(trouble(|scene| scene.auth = 1, 0), "requires a password");
    let refuse = |call, why| move |scene: &mut Scene| scene.refuse = Some((call, why));
    check(trouble(refuse(OPEN, "no driver"), 0), "does not open qemu:///system: no driver");
    check(trouble(refuse(LIST, "not now"), 0), "does not list its domains: not now");
    check(trouble(refuse(GET_XML, "no XML"), 0), "g1 of libvirt is not managed");
    let polkit = |scene: &mut Scene| {
        scene.auth = 2;
        scene.refuse = Some((70, "not authorised"));
    };
    check(trouble(polkit, 0), "refuses the connection: not authorised; run as root");
    check(trouble(|scene| scene.silent = Some(LIST), 5_000), "does not respond");
}

#[test]
fn garbage_ends_the_connection_and_nothing_else() {
    let mut scene = Scene::new(&[(1, 5)]);
    let id = ids(&scene.settle())[0];
    scene.send(&words(&[1, 2, 3, 4, 5, 6]));
    assert_eq!(scene.settle(), [], "a message of something else");
    scene.peers.last_mut().unwrap().write_all(&[0xff; 64]).unwrap();
    let events = scene.settle();
    let [Event::Answers(same, false), Event::Trouble(sentence)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(*same, id);
    assert!(sentence.contains("does not use libvirt's protocol"), "{sentence}");
}
