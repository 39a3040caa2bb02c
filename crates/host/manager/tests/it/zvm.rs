//! A manager of twenty z/VM users. The test writes the file of z/VM's counters. The program that
//! sends messages is a script. A model of the users' kernels reads the script's messages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::scene::{decisions, parts, turn};
use base::Bytes;
use hypervisor::{Event, HostMemory, Hypervisor, Id, IdSource, Zvm, ZvmOptions};
use manager::config::Place;
use manager::{Manager, Parts};
use procfs::testing::Tree;
use reactor::PollSet;
use std::cell::{Cell, RefCell};
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use zmon::hypfs::{Guest, guests_bytes};
use zmon::{Tod, to_ebcdic};

const USERS: usize = 20;
const SIZE_MIB: u64 = 1_024;
/// Memory for all users together.
const ALL_MIB: u64 = 16 * 1_024;
const PAGE_BYTES: u64 = 4096;

/// A user with Linux, which has programs, a pool, and a cache in the remaining memory.
#[derive(Clone, Copy, Debug, Default)]
struct Linux {
    programs_mib: u64,
    pool_mib: u64,
    /// True if its kernel ignores messages.
    is_deaf: bool,
    counted: [u32; 2],
}

impl Linux {
    fn left_mib(&self) -> u64 {
        SIZE_MIB - self.pool_mib
    }

    /// Returns the used memory. The cache fills the memory that programs do not use.
    fn used_mib(&self) -> u64 {
        self.left_mib()
    }

    fn lacks(&self) -> bool {
        self.programs_mib + 32 > self.left_mib()
    }
}

/// The z/VM source, shared with the test. The test can wait for the end of the source's program
/// while the manager's clock is stopped.
struct Shared(Rc<RefCell<Zvm>>);

impl Hypervisor for Shared {
    fn name(&self) -> String {
        self.0.borrow().name()
    }

    fn fds<'a>(&'a self, _set: &mut PollSet<'a>) {}

    fn next_ms(&self) -> u64 {
        let zvm = self.0.borrow();
        let mut set = PollSet::new();
        zvm.fds(&mut set);
        // The program must end before the clock moves.
        if set.is_empty() { zvm.next_ms() } else { 0 }
    }

    fn turn(&mut self, _: Option<&[reactor::Event]>, now_ms: u64, events: &mut Vec<Event>) {
        self.0.borrow_mut().turn(None, now_ms, events);
    }

    fn set_target(&mut self, guest: Id, target: Bytes, now_ms: u64) {
        self.0.borrow_mut().set_target(guest, target, now_ms);
    }

    fn ask_stats(&mut self, guest: Id, now_ms: u64) {
        self.0.borrow_mut().ask_stats(guest, now_ms);
    }

    fn ask_actual(&mut self, guest: Id, now_ms: u64) {
        self.0.borrow_mut().ask_actual(guest, now_ms);
    }

    fn set_running(&mut self, guest: Id, runs: bool, now_ms: u64) {
        self.0.borrow_mut().set_running(guest, runs, now_ms);
    }

    fn host_memory(&self) -> HostMemory {
        self.0.borrow().host_memory()
    }
}

struct Scene {
    dir: Tree,
    hand: Rc<Cell<u64>>,
    zvm: Rc<RefCell<Zvm>>,
    manager: Manager,
    users: Vec<Linux>,
    heard: usize,
    stop: (UnixStream, UnixStream),
}

fn name_of(number: usize) -> String {
    format!("LINUX{number:02}")
}

/// Writes a script that logs its arguments. Another process writes the file. A process forked by
/// the test could otherwise have the file open for writing, so that the script could not be
/// executed.
fn script(path: &Path) {
    let words = format!("#!/bin/sh\necho \"$@\" >> {}\n", path.with_extension("log").display());
    let mut sh = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 700 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    sh.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
    assert!(sh.wait().unwrap().success());
}

impl Scene {
    fn new(programs_mib: u64) -> Scene {
        let dir = Tree::create();
        // The memory of this machine does not count.
        dir.file("proc/meminfo", "MemTotal: 1024 kB\nMemFree: 512 kB\nMemAvailable: 512 kB\n");
        dir.file("proc/vmstat", "pswpin 0\npswpout 0\n");
        script(&dir.join("vmcp"));
        dir.file("vmcp.log", "");
        dir.file("vmrm", "* VMRM's\nNOTIFY MEMORY linux1* LINUX0*\n");
        let settings = format!(
            "[zvm]\nmode = \"manage\"\nmemory = \"{ALL_MIB} MiB\"\nnotify = \"vmrm\"\n\
             counters = \"{0}/diag_2fc\"\nprogram = \"{0}/vmcp\"\n\
             [[class]]\nname = \"all\"\nmatch = [\"*\"]\nmin = \"256 MiB\"\n",
            dir.display()
        );
        dir.file("host.toml", &settings);
        let hand = Rc::new(Cell::new(0));
        let parts = parts(&dir, &hand, Place::default());
        let settings = &parts.loaded.settings.zvm;
        assert_eq!(settings.managed(), ["LINUX1*", "LINUX0*"]);
        let options = ZvmOptions {
            counters: settings.counters.clone(),
            program: settings.program.clone(),
            managed: settings.managed().to_vec(),
            own: None,
            memory: settings.memory,
            interval_ms: settings.interval_ms,
        };
        let zvm = Rc::new(RefCell::new(Zvm::new(options, IdSource::new())));
        let sources: Vec<Box<dyn Hypervisor>> = vec![Box::new(Shared(Rc::clone(&zvm)))];
        let manager = Manager::new(Parts { sources, ..parts }).unwrap();
        let users = vec![Linux { programs_mib, ..Linux::default() }; USERS];
        let stop = UnixStream::pair().unwrap();
        let scene = Scene { dir, hand, zvm, manager, users, heard: 0, stop };
        scene.count();
        scene
    }

    fn count(&self) {
        let guest = |(number, user): (usize, &Linux)| Guest {
            name: to_ebcdic(&name_of(number)),
            elapsed_us: self.hand.get() * 1_000,
            used_us: self.hand.get() * 100,
            memory_max: SIZE_MIB << 10,
            memory_used: user.used_mib() << 10,
            virtual_cpus: 1,
            all_samples: user.counted[0],
            page_samples: user.counted[1],
            ..Guest::default()
        };
        let all: Vec<Guest> = self.users.iter().enumerate().map(guest).collect();
        fs::write(self.dir.join("diag_2fc"), guests_bytes(&all, Tod(1))).unwrap();
    }

    fn messages(&self) -> Vec<String> {
        self.dir.read("vmcp.log").lines().map(str::to_owned).collect()
    }

    /// Delivers new messages, and records four times a second which users wait.
    fn live(&mut self) {
        for message in &self.messages()[self.heard..] {
            self.heard += 1;
            let words: Vec<&str> = message.split(' ').collect();
            let ["smsg", name, "CMM", "SHRINK", pages] = words[..] else { panic!("{message}") };
            let number: usize = name.strip_prefix("LINUX").unwrap().parse().unwrap();
            let user = &mut self.users[number];
            if !user.is_deaf {
                user.pool_mib = (pages.parse::<u64>().unwrap() * PAGE_BYTES) >> 20;
            }
        }
        if self.hand.get().is_multiple_of(250) {
            for user in &mut self.users {
                user.counted[0] += 1;
                user.counted[1] += u32::from(user.lacks());
            }
            self.count();
        }
    }

    fn run(&mut self, ms: u64) {
        let end = self.hand.get() + ms;
        while self.hand.get() < end {
            self.hand.set(self.hand.get() + 50);
            self.live();
            turn(&mut self.manager, &self.stop.0);
            // A started program must end before the clock moves.
            let zvm = self.zvm.borrow();
            let mut set = PollSet::new();
            zvm.fds(&mut set);
            if !set.is_empty() {
                set.wait(60_000).unwrap();
            }
        }
    }

    fn free_mib(&self) -> u64 {
        ALL_MIB.saturating_sub(self.users.iter().map(Linux::used_mib).sum())
    }
}

#[test]
fn twenty_users_keep_the_set_point_and_a_starved_user_grows() {
    let mut scene = Scene::new(200);
    assert_eq!(scene.free_mib(), 0, "users have more than z/VM");
    scene.run(60_000);
    // The set point is a tenth of all memory, and the hysteresis is a hundredth.
    let wanted = ALL_MIB * 9 / 100;
    assert!(scene.free_mib() >= wanted, "{} MiB are free", scene.free_mib());
    let quiet = scene.messages().len();
    println!("{} MiB are free after {quiet} messages", scene.free_mib());
    scene.run(60_000);
    assert!(scene.free_mib() >= wanted, "{} MiB are free", scene.free_mib());
    assert!(scene.messages().len() <= quiet + 5, "sizes have come to rest");
    let least = scene.users.iter().map(Linux::left_mib).min().unwrap();
    assert!(least >= 256, "{least} MiB are below the minimum");
    let shrink = decisions(&scene.dir, "LINUX00");
    let shrink = shrink.iter().find(|d| d.decision.action == "shrink").expect("a shrink");
    assert!(
        shrink.decision.acted && shrink.outcomes.iter().any(|o| o.fate == store::Fate::Reached)
    );

    scene.users[7].programs_mib = 900;
    assert!(scene.users[7].lacks(), "{:?}", scene.users[7]);
    scene.run(20_000);
    assert!(!scene.users[7].lacks(), "{:?}", scene.users[7]);
    let grows = decisions(&scene.dir, "LINUX07");
    let needs = grows.iter().filter(|d| d.decision.action == "grow" && d.decision.clause == "need");
    assert!(needs.count() > 0, "{grows:?}");
    scene.run(60_000);
    println!("{:?}, {} messages", scene.users[7], scene.messages().len());
    assert!(!scene.users[7].lacks(), "the user keeps what it needs");
    assert!(scene.free_mib() >= wanted, "{} MiB are free", scene.free_mib());
}

#[test]
fn deaf_kernel_is_left_alone_and_other_kernels_give() {
    let mut scene = Scene::new(200);
    scene.users[3].is_deaf = true;
    scene.run(60_000);
    assert!(scene.free_mib() >= ALL_MIB * 9 / 100, "{} MiB are free", scene.free_mib());
    let clauses = decisions(&scene.dir, "LINUX03");
    let clauses: Vec<String> = clauses.iter().map(|d| d.decision.clause.to_string()).collect();
    assert!(clauses.iter().any(|clause| clause == "stuck"), "{clauses:?}");
    let told = scene.messages().iter().filter(|message| message.contains("LINUX03")).count();
    assert!(told < 20, "{told} messages about a kernel that does not respond");
}

#[test]
fn nothing_is_moved_while_z_vm_cannot_be_read() {
    let mut scene = Scene::new(200);
    scene.run(1_000);
    // No decision has been made so far.
    let said = scene.messages().len();
    let counters = scene.dir.join("diag_2fc");
    for _ in 0..200 {
        scene.hand.set(scene.hand.get() + 50);
        let _ = fs::remove_file(&counters);
        turn(&mut scene.manager, &scene.stop.0);
    }
    assert_eq!((said, scene.messages().len()), (0, 0));
}
