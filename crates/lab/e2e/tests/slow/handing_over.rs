//! A manager that takes over the guests of a farm, and a kill at any moment of the take-over.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use base::Rng;
use e2e::farms::{Farm, are_gone, text};
use e2e::manager::{Manager, Place, Size, signal, wait_until};
use e2e::{PATIENCE, share};
use manager::control::{Answer, Ask, ask};
use procfs::children;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use vm::images;
use vm::{Deadline, Monitor, wait_for_exit};

const PORT: u16 = 27_500;
/// Guests that stay awake, guests parked in memory, and guests parked on disk. Their ports are
/// consecutive.
const CLASSES: &str = "[[class]]\nname = \"awake\"\ncount = 2\nimage = \"web\"\ntemplate = true\n\
                       memory = \"128 MiB\"\nports = [{ guest = 80, host = 27500 }]\n\
                       [[class]]\nname = \"ram\"\ncount = 3\nimage = \"web\"\ntemplate = true\n\
                       memory = \"128 MiB\"\nports = [{ guest = 80, host = 27502 }]\n\
                       [[class]]\nname = \"disk\"\ncount = 3\nimage = \"web\"\ntemplate = true\n\
                       memory = \"128 MiB\"\npark_to = \"disk\"\n\
                       ports = [{ guest = 80, host = 27505 }]\n";
const GUESTS: [&str; 8] = ["awake1", "awake2", "ram1", "ram2", "ram3", "disk1", "disk2", "disk3"];
const AWAKE: u16 = 2;
const MEMORY_MIB: u64 = 128;
const SIZE: Size =
    Size { budget_mib: 4096, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
/// Settings with which a manager reclaims memory from each guest as soon as it has taken over the
/// guest.
const PIN: &str = "[[class]]\nname = \"all\"\nmatch = [\"*\"]\npin = \"104 MiB\"\n";

/// Timeout of a manager's response.
const SOON: Duration = Duration::from_secs(1);

const MOMENTS: u64 = 50;
/// Range of the moments of a kill. A manager takes over its guests within a second here, and
/// shrinks them in the next seconds.
const MOMENT_MAX_US: u64 = 4_000_000;
/// Time between two requests to the guests that stay awake. The next request does not wait for
/// earlier responses.
const PACE: Duration = Duration::from_millis(14);

/// Number of requests sent to the guests that stay awake.
static SENT: AtomicU64 = AtomicU64::new(0);

/// Process or pair of processes that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Manager,
    Keeper,
    Both,
    Farm,
}

const VICTIMS: [Victim; 4] = [Victim::Manager, Victim::Keeper, Victim::Both, Victim::Farm];

#[derive(Debug, Default)]
struct Counts {
    is_paused: AtomicBool,
    open: AtomicUsize,
    served: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

/// Requests to the guests that stay awake, sent at a fixed pace.
struct Load {
    counts: Arc<Counts>,
    end: Sender<()>,
    thread: JoinHandle<()>,
}

/// Requests a web server's page. The error contains the actual response.
fn served(port: u16) -> Result<(), String> {
    let ask = || {
        let mut client = TcpStream::connect(("127.0.0.1", port))?;
        client.set_read_timeout(Some(PATIENCE))?;
        if port < PORT + AWAKE {
            SENT.fetch_add(1, Ordering::SeqCst);
        }
        client.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer: Vec<u8> = ask().map_err(|error: io::Error| error.to_string())?;
    let is_whole = answer.starts_with(b"HTTP/1.1 200 OK") && answer.len() > images::PAGE_BYTES;
    if is_whole { Ok(()) } else { Err(format!("{} bytes: {:.40}", answer.len(), text(&answer))) }
}

impl Load {
    fn start() -> Load {
        let counts = Arc::new(Counts::default());
        let (end, ended) = channel();
        let ours = Arc::clone(&counts);
        let thread = thread::spawn(move || {
            for number in 0.. {
                if ended.recv_timeout(PACE) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                let counts = Arc::clone(&ours);
                // The request counts as open before the check for a pause. A pause therefore also
                // waits for this request.
                counts.open.fetch_add(1, Ordering::SeqCst);
                if counts.is_paused.load(Ordering::SeqCst) {
                    counts.open.fetch_sub(1, Ordering::SeqCst);
                    continue;
                }
                thread::spawn(move || {
                    match served(PORT + number % AWAKE) {
                        Ok(()) => _ = counts.served.fetch_add(1, Ordering::SeqCst),
                        Err(why) => counts.failed.lock().unwrap().push(why),
                    }
                    counts.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Load { counts, end, thread }
    }

    /// Stops sending requests, and waits for the outstanding responses.
    fn pause(&self) {
        self.counts.is_paused.store(true, Ordering::SeqCst);
        let none_is_open = || self.counts.open.load(Ordering::SeqCst) == 0;
        assert!(wait_until(PATIENCE, none_is_open).is_some(), "a request has no answer");
    }

    fn go_on(&self) {
        self.counts.is_paused.store(false, Ordering::SeqCst);
    }

    /// Checks that the guests have accepted exactly one connection per request. `before` is the
    /// number of connections that the guests had accepted before the first request.
    fn no_request_is_doubled(&self, scene: &Scene, before: u64) {
        self.pause();
        let (accepted, sent) = (scene.accepted() - before, SENT.load(Ordering::SeqCst));
        assert_eq!(accepted, sent, "connections of the guests, and requests");
        println!("{sent} requests, each on one connection of a guest");
        self.go_on();
    }

    fn failed(&self) -> Vec<String> {
        self.counts.failed.lock().unwrap().clone()
    }

    fn end(self) -> usize {
        self.pause();
        drop(self.end);
        self.thread.join().unwrap();
        self.counts.served.load(Ordering::SeqCst)
    }
}

/// A farm, and a directory for its managers.
struct Scene {
    farm: Farm,
    place: Place,
    settings: PathBuf,
}

impl Scene {
    fn up(&self) {
        self.farm.succeed(&["up", "--detach", &self.farm.file()]);
    }

    /// Returns the number of connections accepted by the guests that stay awake.
    fn accepted(&self) -> u64 {
        let of_guest = |guest: &&str| {
            let guest = self.farm.guest(guest);
            let text = self.farm.succeed(&["exec", &guest, "--", "cat", "/proc/net/snmp"]);
            // Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens
            let numbers = text.lines().filter(|line| line.starts_with("Tcp:")).nth(1).unwrap();
            numbers.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap()
        };
        GUESTS[..usize::from(AWAKE)].iter().map(of_guest).sum()
    }

    fn pid(&self) -> u32 {
        self.farm.table()["pid"].as_u64().unwrap().try_into().unwrap()
    }

    /// Starts a command on a guest, without waiting for its end.
    fn ask(&self, word: &str, guest: &str) -> Child {
        let mut command = self.farm.command(&[word, &self.farm.guest(guest)]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn park(&self, guest: &str) {
        let parks = || self.farm.run(&["park", &self.farm.guest(guest)]).status.success();
        assert!(wait_until(PATIENCE, parks).is_some(), "{guest} cannot be parked");
    }

    /// Returns the parked guests that got no command to wake or to park.
    fn parked(&self) -> Vec<&'static str> {
        let table = self.farm.table();
        let guests = table["guests"].as_array().unwrap();
        let is_parked = |name: &str| {
            guests.iter().any(|guest| guest["name"] == name && guest["state"] == "parked")
        };
        ["ram1", "disk1"].into_iter().filter(|name| is_parked(name)).collect()
    }

    /// Returns the number of the manager's guests, and the number of those guests that have less
    /// than their full memory.
    fn taken(&self) -> (usize, usize) {
        let Ok(Answer::Ps(ps)) = ask(&self.place.socket(), &Ask::Ps, SOON) else { return (0, 0) };
        let memory = Some(MEMORY_MIB << 20);
        let small = ps.guests.iter().filter(|guest| guest.actual_bytes < memory);
        (ps.guests.len(), small.filter(|guest| guest.actual_bytes.is_some()).count())
    }

    /// Returns the memory that a guest's balloon leaves to the guest, in MiB.
    fn actual_mib(&self, run_dir: &Path, guest: &str) -> Option<u64> {
        let stream = UnixStream::connect(run_dir.join(format!("{guest}.qmp"))).ok()?;
        let answer = Monitor::new(stream)
            .call(qmp::Command::QueryBalloon, Deadline::after(PATIENCE))
            .ok()?;
        match answer {
            qmp::Reply::Balloon { actual_bytes } => Some(actual_bytes >> 20),
            _ => None,
        }
    }

    /// Waits until every guest answers a client and has all of its memory. Returns the duration.
    fn is_whole(&self, manager: &Manager<'_>, what: &str) -> Duration {
        for (port, guest) in (PORT..).zip(GUESTS) {
            if let Err(why) = served(port) {
                panic!("{what}: {guest}: {why}\n{:#}\n{}", self.farm.table(), manager.log());
            }
        }
        let run_dir = self.farm.run_dir(self.pid());
        let mut last = Vec::new();
        let is_back = || {
            last = GUESTS.map(|guest| self.actual_mib(&run_dir, guest)).to_vec();
            last.iter().all(|mib| *mib == Some(MEMORY_MIB))
        };
        wait_until(PATIENCE, is_back)
            .unwrap_or_else(|| panic!("{what}: {GUESTS:?} have {last:?} MiB\n{}", manager.log()))
    }
}

/// Returns the keeper of a manager, if it has started.
fn keeper(manager: u32) -> Option<u32> {
    let is_keeper = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"keeper")
    };
    children(manager).ok()?.into_iter().find(is_keeper)
}

/// A manager, its keeper, both, or the farm is killed, at another moment each time. No guest is
/// lost, no guest stays stopped, and each guest has its memory.
#[test]
fn guests_are_whole_after_any_kill_during_a_hand_over() {
    let farm = Farm::new("handing", CLASSES, share(GUESTS.len()));
    let place = Place::new();
    let mut scene = Scene { farm, place, settings: PathBuf::new() };
    scene.up();
    let sockets = scene.farm.run_dir(scene.pid());
    // A farm that starts again has another directory, so the settings contain a pattern.
    let any = sockets.parent().unwrap().join("*");
    scene.settings = scene.place.settings_for(&any, &SIZE, PIN);

    let mut accepted = scene.accepted();
    let load = Load::start();
    let mut rng = Rng::new(20_261_129);
    let (mut longest, mut had_keeper, mut had_memory) = (Duration::ZERO, 0, 0);
    let mut fewest_after_2_s = GUESTS.len();
    for (number, victim) in (1..=MOMENTS).zip(VICTIMS.into_iter().cycle()) {
        if victim == Victim::Farm {
            load.no_request_is_doubled(&scene, accepted);
        }
        for guest in ["ram1", "ram2", "disk1", "disk2"] {
            scene.park(guest);
        }
        // One guest of each kind is being parked, and one is being woken.
        let asked = [("wake", "ram2"), ("park", "ram3"), ("wake", "disk2"), ("park", "disk3")];
        let asked = asked.map(|(word, guest)| scene.ask(word, guest));
        let farm_pid = scene.pid();
        let mut manager = Manager::spawn(&scene.place, &scene.settings);
        let after = Duration::from_micros(rng.within(0, MOMENT_MAX_US));
        // The wait ends at the moment of the kill, or when the farm ends.
        let _ = wait_for_exit(farm_pid, after);
        if victim == Victim::Farm {
            load.pause();
        }
        let kept_by = keeper(manager.pid());
        had_keeper += u64::from(kept_by.is_some());
        let (guests, small) = scene.taken();
        assert_eq!(scene.parked(), ["ram1", "disk1"], "a manager that starts wakes no guest");
        had_memory += u64::from(small > 0);
        if after >= Duration::from_secs(2) {
            fewest_after_2_s = fewest_after_2_s.min(guests);
        }
        if victim == Victim::Keeper || victim == Victim::Both {
            kept_by.into_iter().for_each(|pid| signal(pid, "KILL"));
        }
        if victim == Victim::Manager || victim == Victim::Both {
            manager.signal("KILL");
        }
        if victim == Victim::Farm {
            signal(farm_pid, "KILL");
            are_gone(&[farm_pid]);
            scene.up();
            SENT.store(0, Ordering::SeqCst);
            accepted = scene.accepted();
        }
        if victim == Victim::Keeper || victim == Victim::Farm {
            manager.signal("TERM");
        }
        manager.end(PATIENCE);
        let what =
            format!("moment {number}, {victim:?} after {after:?}, {guests} guests, {small} shrunk");
        let took = scene.is_whole(&manager, &what);
        println!("{what}: all memory was back after {took:?}");
        longest = longest.max(took);
        asked.into_iter().for_each(|mut child| drop(child.wait()));
        load.go_on();
        assert_eq!(load.failed(), Vec::<String>::new(), "{what}");
    }
    load.no_request_is_doubled(&scene, accepted);
    println!(
        "{} requests were served; memory was back after {longest:?} at the latest; {had_keeper} \
         managers had a keeper, {had_memory} had taken memory; {fewest_after_2_s} guests or more \
         were theirs after 2 s",
        load.end()
    );
    assert!(had_keeper > MOMENTS / 2 && had_memory > 0, "the moments are all too early");
}
