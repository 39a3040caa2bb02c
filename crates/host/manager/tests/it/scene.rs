//! A host with a meminfo written by the test, a manager of fake guests, and a client of its socket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::Bytes;
use hypervisor::{Fake, Id, IdSource, balloon_row};
use manager::config::Place;
use manager::control::{Bounds, Server};
use manager::ksm::Ksm;
use manager::{
    Clock, Lease, MachineReader, Manager, Options, PageOutWorker, Parts, Signals, Turn, Users,
    keeper,
};
use model::GuestField as G;
use procfs::testing::Tree;
use std::cell::Cell;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::ops::{ControlFlow, Deref, DerefMut};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::rc::Rc;
use store::{Decided, Journal, Query, Range, Writer};

pub const GIB: u64 = 1 << 30;

/// A host of 16 GiB with a meminfo written by the test, and a manager of fake guests.
pub struct Scene {
    pub dir: Tree,
    pub hand: Rc<Cell<u64>>,
    pub fake: Fake,
    pub manager: Manager,
    /// Signals of the manager. They are never sent, and the pair stays open.
    stop: (UnixStream, UnixStream),
    /// Guests with a balloon, and the memory that they use.
    pub guests: Vec<(Id, Bytes)>,
}

impl Scene {
    pub fn new(settings: &str) -> Scene {
        Scene::with(settings, Options::default())
    }

    pub fn with(settings: &str, options: Options) -> Scene {
        Scene::of(settings, |parts, _| Parts { options, ..parts })
    }

    /// Returns a scene with a keeper that reads all its input and does nothing else.
    pub fn kept(settings: &str) -> Scene {
        Scene::kept_by(settings, "cat")
    }

    /// Returns a scene with this program as the keeper.
    pub fn kept_by(settings: &str, program: &str) -> Scene {
        let keeper = keeper::Lease::start(program.into(), Vec::new(), 0).unwrap();
        Scene::of(settings, |parts, _| Parts { lease: Lease::of(keeper), ..parts })
    }

    /// Returns a scene with a keeper and the list of guests that a dead manager has left.
    pub fn after(written: &str) -> Scene {
        Scene::of("", |parts, dir| {
            fs::write(dir.join("host.sock.1.parked"), written).unwrap();
            let keeper = keeper::Lease::start("cat".into(), Vec::new(), 0).unwrap();
            let lease = Lease::of(keeper).written_beside(&dir.join("host.sock"));
            Parts { lease, ..parts }
        })
    }

    /// Returns a scene in which the test replaces parts of the manager.
    pub fn of(settings: &str, replace: impl FnOnce(Parts, &Path) -> Parts) -> Scene {
        let dir = Tree::create();
        dir.file("host.toml", settings);
        dir.file("proc/vmstat", "pswpin 0\npswpout 0\n");
        write_meminfo(&dir, 8 * GIB);
        let place = Place { host_total: Some(Bytes(16 * GIB)), ..Place::default() };
        let hand = Rc::new(Cell::new(0));
        let fake = Fake::new("fake", IdSource::new());
        let parts = Parts { sources: vec![Box::new(fake.clone())], ..parts(&dir, &hand, place) };
        let manager = Manager::new(replace(parts, &dir)).unwrap();
        let stop = UnixStream::pair().unwrap();
        Scene { dir, hand, fake, manager, stop, guests: Vec::new() }
    }

    /// Adds a guest that uses `used` of its memory. The rest is free in the guest.
    pub fn guest(&mut self, name: &str, memory: Bytes, used: Bytes) -> Id {
        let id = self.fake.add(Fake::found(name, memory));
        self.guests.push((id, used));
        id
    }

    /// Lets time pass. Each guest's free memory follows its balloon.
    pub fn run(&mut self, ms: u64) {
        let end = self.hand.get() + ms;
        while self.hand.get() < end {
            let now = self.hand.get() + 50;
            self.hand.set(now);
            for (id, used) in &self.guests {
                let Some(actual) = self.fake.actual(*id) else { continue };
                let free = Some(actual.less(*used).0);
                let values = [
                    (G::BalloonFree, free),
                    (G::BalloonAvailable, free),
                    (G::BalloonCached, Some(0)),
                    (G::BalloonSwapIn, Some(0)),
                    (G::BalloonSwapOut, Some(0)),
                    (G::BalloonMajorFaults, Some(0)),
                ];
                let stats = balloon_row(now / 1000 + 1, actual, values);
                self.fake.set_stats(*id, Some(stats));
            }
            turn(&mut self.manager, &self.stop.0);
        }
    }

    /// Changes the used memory of a guest.
    pub fn uses(&mut self, id: Id, used: Bytes) {
        for (_, now) in self.guests.iter_mut().filter(|(guest, _)| *guest == id) {
            *now = used;
        }
    }

    pub fn actual(&self, id: Id) -> u64 {
        self.fake.actual(id).unwrap().as_mib()
    }

    /// Returns a connection to the control socket.
    pub fn client(&self) -> Client {
        let stream = UnixStream::connect(self.dir.join("host.sock")).unwrap();
        stream.set_nonblocking(true).unwrap();
        Client(stream)
    }

    /// Returns the manager's response to a request, if it arrives within a second.
    pub fn ask(&mut self, client: &mut UnixStream, request: &str) -> Option<serde_json::Value> {
        writeln!(client, "{request}").unwrap();
        self.run(1_000);
        answer(client)
    }

    /// Returns the number of guests that the keeper would restore.
    pub fn held(&mut self) -> u64 {
        let status = self.ask(&mut self.client(), r#"{"v":1,"id":1,"do":"status"}"#).unwrap();
        status["ok"]["lease"]["guests"].as_u64().unwrap()
    }

    /// Returns the lines of the files that list guests.
    pub fn written(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| path.extension().is_some_and(|end| end == "parked"));
        let text: String = files.map(|path| fs::read_to_string(path).unwrap()).collect();
        text.lines().map(str::to_owned).collect()
    }

    pub fn decisions(&self, name: &str) -> Vec<Decided> {
        decisions(&self.dir, name)
    }

    pub fn clauses(&self, name: &str) -> Vec<String> {
        self.decisions(name).iter().map(|d| d.decision.clause.to_string()).collect()
    }
}

/// Returns the parts of a manager without sources, with files in this directory.
pub fn parts(dir: &Path, hand: &Rc<Cell<u64>>, place: Place) -> Parts {
    let config_path = dir.join("host.toml");
    let loaded = manager::config::load(Some(&config_path), &place).unwrap();
    let named = &loaded.settings.sources.users;
    Parts {
        clock: Clock::by_hand(Rc::clone(hand)),
        options: Options::default(),
        place,
        config_path: Some(config_path),
        users: Users::find(named, Path::new("/etc/passwd"), Bytes(16 * GIB)).unwrap(),
        loaded,
        sources: Vec::new(),
        reader: MachineReader::open(&procfs::Root::at(dir)).unwrap(),
        journal: Writer::new(&dir.join("journal.db")),
        control: Server::open(&dir.join("host.sock"), None, Bounds::MANAGER).unwrap(),
        lease: Lease::none(),
        ksm: Ksm::open(dir, manager::config::KsmMode::Leave),
        page_out: PageOutWorker::none("no test hands memory of this machine over"),
        monitor: None,
    }
}

/// Gives the manager one turn without a signal.
pub fn turn(manager: &mut Manager, stop: &UnixStream) {
    let signals = Signals { stop: stop.as_fd(), reload: stop.as_fd() };
    assert_eq!(manager.turn(&signals).unwrap(), Turn::On);
}

/// Returns the decisions about a guest in the journal of a manager.
pub fn decisions(dir: &Path, name: &str) -> Vec<Decided> {
    let journal = Journal::read_only(&dir.join("journal.db")).unwrap();
    let guests = journal.guests().unwrap();
    let of = guests.iter().filter(|row| row.guest.name == name).map(|row| row.key).collect();
    let range = Range { from_ms: 0, to_ms: i64::MAX };
    let mut all = Vec::new();
    let query = Query { guests: of, range, policy: None };
    journal
        .decisions(&query, |decided| {
            all.push(decided);
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

/// A connection to the control socket. Dropping it ends the connection at once. Closing the
/// descriptor is not enough, because a process forked by another test keeps a copy until it
/// executes its program.
pub struct Client(UnixStream);

impl Deref for Client {
    type Target = UnixStream;

    fn deref(&self) -> &UnixStream {
        &self.0
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut UnixStream {
        &mut self.0
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A sleeping process of the host, killed when dropped.
pub struct Sleeper(Child);

impl Sleeper {
    pub fn start() -> Sleeper {
        Sleeper(Command::new("sleep").arg("60").spawn().unwrap())
    }

    /// Starts a process that runs all the time.
    pub fn busy() -> Sleeper {
        Sleeper(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn write_meminfo(dir: &Path, available: u64) {
    let text = format!(
        "MemTotal: {} kB\nMemFree: {} kB\nMemAvailable: {} kB\n",
        16 * GIB / 1024,
        available / 1024,
        available / 1024
    );
    fs::write(dir.join("proc/meminfo"), text).unwrap();
}

pub const FOUR: Bytes = Bytes::mib(4096);

/// Returns the next line received.
pub fn answer(client: &mut UnixStream) -> Option<serde_json::Value> {
    let mut line = Vec::new();
    let mut byte = [0];
    while client.read(&mut byte).is_ok_and(|count| count > 0) && byte != *b"\n" {
        line.push(byte[0]);
    }
    (!line.is_empty()).then(|| serde_json::from_slice(&line).unwrap())
}
