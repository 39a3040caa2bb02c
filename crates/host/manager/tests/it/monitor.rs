//! The manager with a monitor: the recorded values, and no delays by the monitor.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::Bytes;
use hypervisor::{Fake, IdSource};
use manager::config::{KsmMode, Loaded, Place};
use manager::control::{Bounds, Server};
use manager::ksm::Ksm;
use manager::{Clock, Lease, MachineReader, Manager, Monitor, Options, Parts, Signals, Sink, Turn};
use model::{GuestField, HostField, Moment, Row};
use std::cell::Cell;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use store::Writer;

/// Time far above the duration of a round.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sink that signals the arrival of each moment, and then waits for a message of the test.
struct Hands {
    begun: Sender<()>,
    moments: Sender<Moment>,
    words: Receiver<()>,
}

impl Sink for Hands {
    fn record(&mut self, moment: &Moment) -> Option<String> {
        let _ = self.begun.send(());
        let _ = self.words.recv();
        let _ = self.moments.send(moment.clone());
        None
    }

    fn finish(&mut self) -> Option<String> {
        None
    }
}

struct Scene {
    dir: PathBuf,
    hand: Rc<Cell<u64>>,
    fake: Fake,
    manager: Manager,
    begun: Receiver<()>,
    moments: Receiver<Moment>,
    words: Sender<()>,
    stop: (UnixStream, UnixStream),
}

impl Scene {
    fn new(name: &str) -> Scene {
        let dir = std::env::temp_dir().join(format!("pinhead-mon-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("proc")).unwrap();
        let meminfo = "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n";
        fs::write(dir.join("proc/meminfo"), meminfo).unwrap();
        fs::write(dir.join("proc/vmstat"), "pswpin 0\npswpout 0\n").unwrap();
        let place = Place { host_total: Some(Bytes(16 << 30)), ..Place::default() };
        let loaded: Loaded = manager::config::load(None, &place).unwrap();
        let hand = Rc::new(Cell::new(0));
        let fake = Fake::new("fake", IdSource::new());
        let ((moments_at, moments), (words, words_at)) = (channel(), channel());
        let (begun_at, begun) = channel();
        let sink = Box::new(Hands { begun: begun_at, moments: moments_at, words: words_at });
        let manager = Manager::new(Parts {
            clock: Clock::by_hand(Rc::clone(&hand)),
            options: Options::default(),
            place,
            config_path: None,
            loaded,
            users: manager::Users::default(),
            sources: vec![Box::new(fake.clone())],
            reader: MachineReader::open(&procfs::Root::at(&dir)).unwrap(),
            journal: Writer::new(&dir.join("journal.db")),
            control: Server::open(&dir.join("host.sock"), None, Bounds::MANAGER).unwrap(),
            lease: Lease::none(),
            ksm: Ksm::open(&dir, KsmMode::Leave),
            page_out: manager::PageOutWorker::none("no test hands memory of this machine over"),
            monitor: Some(Monitor::start(&dir, Some(sink)).unwrap()),
        })
        .unwrap();
        let stop = UnixStream::pair().unwrap();
        Scene { dir, hand, fake, manager, begun, moments, words, stop }
    }

    fn run(&mut self, ms: u64) {
        let end = self.hand.get() + ms;
        while self.hand.get() < end {
            self.hand.set(self.hand.get() + 50);
            let signals = Signals { stop: self.stop.0.as_fd(), reload: self.stop.0.as_fd() };
            assert_eq!(self.manager.turn(&signals).unwrap(), Turn::On);
        }
    }

    fn next(&self) -> Moment {
        self.words.send(()).unwrap();
        self.moments.recv_timeout(PATIENCE).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // The monitor's end waits for its sink, which waits for messages.
        (0..100).for_each(|_| {
            let _ = self.words.send(());
        });
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn guest<'m>(moment: &'m Moment, name: &str) -> &'m Row<GuestField> {
    moment.guests.iter().find(|(who, _)| who.name == name).map(|(_, row)| row).unwrap()
}

#[test]
fn a_moment_has_the_host_and_every_guest() {
    let mut scene = Scene::new("all");
    for name in ["web1", "db1"] {
        scene.fake.add(Fake::found(name, Bytes::mib(1024)));
    }
    scene.run(1000);
    // The first moment may be older than the discovery of the guests.
    let first = scene.next();
    let moment = if first.guests.len() == 2 {
        first
    } else {
        scene.run(1000);
        scene.next()
    };
    assert_eq!(moment.host.get(HostField::Total), Some(16 << 30));
    assert_eq!(moment.host.get(HostField::Guests), Some(2));
    assert_eq!(moment.host.get(HostField::Idle), None, "this host has no file for it");
    assert!(moment.host.get(HostField::SetPoint).is_some());
    assert!(moment.host.get(HostField::OwnRun).is_some());
    assert!(moment.at_ms > 1_000_000_000_000, "the wall clock counts");
    let web = guest(&moment, "web1");
    assert_eq!(web.get(GuestField::Memory), Some(1 << 30));
    assert_eq!(web.get(GuestField::Actual), Some(1 << 30));
    assert!(web.get(GuestField::Minimum).is_some());
    assert_eq!(web.get(GuestField::VcpuRun), None, "the process is unknown");
    assert_eq!(web.get(GuestField::OwnTotal), None, "there is no daemon");
}

#[test]
fn hung_sink_delays_nothing_and_missed_moments_are_counted() {
    let mut scene = Scene::new("hangs");
    scene.fake.add(Fake::found("web1", Bytes::mib(1024)));
    // Half a minute of the manager's time passes without a recording. The sink still has the first
    // moment, and two more wait.
    scene.run(1000);
    scene.begun.recv_timeout(PATIENCE).unwrap();
    scene.run(30_000);
    let missed = |moment: &Moment| moment.host.get(HostField::MissedMoments).unwrap();
    assert_eq!(missed(&scene.next()), 0);
    // Two moments have waited. The next moment counts the moments that found no room.
    (0..2).for_each(|_| drop(scene.next()));
    scene.run(1000);
    let moment = scene.next();
    assert!((20..30).contains(&missed(&moment)), "{}", missed(&moment));
}
