//! The keeper as a process, with a manager that is killed, hangs, or ends in order.
//!
//! All processes run this program. Two act as QEMUs, a dummy manager has a lease, and the lease
//! starts the keeper. Each role is a separate test, which does nothing without a working directory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use base::Bytes;
use hypervisor::ProcessId;
use manager::keeper::{Held, Lease, Limits, Options, Place, run};
use procfs::Root;
use procfs::testing::Tree;
use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const DIR: &str = "PINHEAD_TEST_DIR";
/// Environment variable with the name of a QEMU, or with the process IDs of both QEMUs.
const QEMU: &str = "PINHEAD_TEST_QEMU";
const GUESTS: [&str; 2] = ["a", "b"];
/// File that exists while the guests are stopped, and the file that lists the guests.
const PAUSED: &str = "paused";
const PARKED: &str = "parked";
/// File that exists if the guests' sizes are to be listed.
const SHRUNK: &str = "shrunk";
/// Time longer than any step of a test, also on a busy machine.
const LONG: Duration = Duration::from_secs(60);
const RESTORE: Bytes = Bytes::mib(512);
const HELD: Bytes = Bytes::mib(200);
/// Memory that no guest gets.
const RESERVE: Bytes = Bytes::mib(40);

/// Acts as a QEMU: answers the usual commands, and prints the targets of its balloon.
#[test]
fn a_qemu() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let name = std::env::var(QEMU).expect("a name");
    let listener = UnixListener::bind(dir.join(format!("{name}.qmp"))).expect("a socket");
    println!("listens 0");
    for stream in listener.incoming() {
        let stream = stream.expect("a client");
        // The first client is the keeper. The output shows if the manager is still alive at that
        // time.
        let manager = fs::read_to_string(dir.join("manager")).expect("the manager's numbers");
        let (pid, start_ticks) = manager.split_once(' ').expect("two");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let pid = u32::try_from(number(pid)).expect("a number");
        let manager = ProcessId { pid, start_ticks: number(start_ticks) };
        println!("lives {}", u64::from(manager.is_alive()));
        converse(stream, &name, &dir);
    }
}

fn converse(mut stream: UnixStream, name: &str, dir: &Path) {
    let mut runs = !dir.join(PAUSED).exists();
    let version = json!({ "qemu": { "micro": 0, "minor": 2, "major": 7 }, "package": "" });
    let greeting = json!({ "QMP": { "version": version, "capabilities": [] } });
    if writeln!(stream, "{greeting}").is_err() {
        return;
    }
    let lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
    for line in lines.map_while(Result::ok) {
        let command: Value = serde_json::from_str(&line).expect("a command");
        let value = match command["execute"].as_str().expect("a name") {
            "query-name" => json!({ "name": name }),
            "query-uuid" => json!({ "UUID": "00000000-0000-0000-0000-000000000000" }),
            "query-memory-size-summary" => json!({ "base-memory": RESTORE.0 }),
            "query-balloon" => json!({ "actual": HELD.0 }),
            "query-status" => {
                let status = if runs { "running" } else { "paused" };
                json!({ "status": status, "running": runs, "singlestep": false })
            }
            "cont" => {
                runs = true;
                json!({})
            }
            "query-migrate" | "qmp_capabilities" => json!({}),
            "balloon" => {
                let value = command["arguments"]["value"].as_u64().expect("a size");
                println!("target {value}");
                json!({})
            }
            _ => json!([]),
        };
        let reply = json!({ "return": value, "id": command["id"] });
        if writeln!(stream, "{reply}").is_err() {
            return;
        }
    }
}

struct Scene {
    dir: Tree,
    qemus: Vec<Child>,
    manager: Child,
    keeper: ProcessId,
    told: Receiver<(&'static str, String, u64)>,
}

impl Scene {
    /// Returns a manager with two guests that have given up memory, and its keeper.
    fn new(available_mib: u64) -> Scene {
        Scene::at(Tree::create(), available_mib)
    }

    fn at(dir: Tree, available_mib: u64) -> Scene {
        dir.file("root/sys/kernel/mm/ksm/run", "1");
        let meminfo = format!("MemAvailable:   {} kB\n", available_mib * 1024);
        dir.file("root/proc/meminfo", &meminfo);
        let (sender, told) = channel();
        let mut qemus = Vec::new();
        for name in GUESTS {
            let mut qemu = child("a_qemu", &dir, name);
            let mut numbers = numbers(&mut qemu);
            assert_eq!(numbers.next(), Some(("listens".to_owned(), 0)));
            let sender = sender.clone();
            thread::spawn(move || {
                for (word, number) in numbers {
                    if sender.send((name, word, number)).is_err() {
                        return;
                    }
                }
            });
            qemus.push(qemu);
        }
        let pids: Vec<_> = qemus.iter().map(|qemu| qemu.id().to_string()).collect();
        let mut manager = child("a_manager", &dir, &pids.join(" "));
        let mut numbers = numbers(&mut manager);
        let (_, pid) = numbers.next().expect("the keeper's number");
        let keeper = ProcessId::of(u32::try_from(pid).expect("a number")).expect("a keeper");
        // The rest of the output is read, so that the manager never blocks.
        thread::spawn(move || numbers.count());
        Scene { dir, qemus, manager, keeper, told }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.manager);
        kill_process(pid, signal).expect("a signal");
    }

    /// Returns the guests' targets, once both guests have a target.
    fn targets(&self) -> BTreeMap<&'static str, u64> {
        self.targets_while(&|_| true)
    }

    /// Returns the guests' targets. The manager must have ended before any guest got a target.
    fn targets_after_its_end(&self) -> BTreeMap<&'static str, u64> {
        self.targets_while(&|lives| !lives)
    }

    fn targets_while(&self, may_be: &dyn Fn(bool) -> bool) -> BTreeMap<&'static str, u64> {
        let mut targets = BTreeMap::new();
        while targets.len() < 2 {
            let (name, word, number) = self.told.recv_timeout(LONG).expect("a target");
            match word.as_str() {
                "lives" => assert!(may_be(number == 1), "{name} has a client before the end"),
                _ => drop(targets.insert(name, number)),
            }
        }
        targets
    }

    fn end(mut self) {
        self.wait();
    }

    fn wait(&mut self) {
        let _ = self.manager.kill();
        self.manager.wait().expect("the manager's end");
        let mut waited = Duration::ZERO;
        while self.keeper.is_alive() {
            assert!(waited < LONG, "the keeper stays");
            waited += pause(50);
        }
    }
}

impl Drop for Scene {
    /// Kills the manager and the QEMUs. The keeper ends on its own after its manager.
    fn drop(&mut self) {
        let _ = self.manager.kill();
        let _ = self.manager.wait();
        for qemu in &mut self.qemus {
            let _ = qemu.kill();
            let _ = qemu.wait();
        }
    }
}

/// Lets other processes run. Returns the time spent.
fn pause(ms: u32) -> Duration {
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(ms) * 1_000_000 };
    poll(&mut [], Some(&time)).expect("a poll of nothing");
    Duration::from_millis(ms.into())
}

/// Starts this program again, in one of its roles.
fn child(part: &str, dir: &Path, qemu: &str) -> Child {
    Command::new(std::env::current_exe().expect("a program"))
        .args(["--exact", &format!("keeper::{part}"), "--nocapture"])
        .env(DIR, dir)
        .env(QEMU, qemu)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Returns the words with numbers in a child's output, without the output of the test harness.
fn numbers(child: &mut Child) -> impl Iterator<Item = (String, u64)> + Send + use<> {
    let output = BufReader::new(child.stdout.take().expect("its output"));
    output.lines().map_while(Result::ok).filter_map(|line| {
        // The harness starts a line before it calls the test, so the test's output may follow on
        // that line.
        let mut words = line.rsplit(' ');
        let number = words.next()?.parse().ok()?;
        Some((words.next()?.to_owned(), number))
    })
}

/// The line of a guest that is unknown to the dummy manager.
const NOT_FOUND: &str = "1 1\n";

/// Acts as a manager.
#[test]
fn a_manager() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let pids = std::env::var(QEMU).expect("numbers");
    let pids = pids.split(' ').map(|pid| ProcessId::of(pid.parse().expect("a number")));
    let qemus = pids.map(|qemu| qemu.expect("a guest"));
    let program = std::env::current_exe().expect("a program");
    let arguments = ["--exact", "keeper::a_keeper", "--nocapture"].map(Into::into).into();
    let own = ProcessId::of(std::process::id()).expect("its numbers");
    fs::write(dir.join("manager"), format!("{} {}", own.pid, own.start_ticks)).expect("a file");
    let mut lease = Lease::start(program, arguments, 0).expect("a keeper");
    lease.set_reserve(RESERVE);
    let mut written = String::new();
    for ((id, name), qemu) in (1..).zip(GUESTS).zip(qemus) {
        let held = Held {
            id,
            name: name.to_owned(),
            place: Place::Qmp(format!("{}/{name}.qmp", dir.display())),
            owner: hypervisor::Owner::own().0,
            uuid: [0; 16],
            process: Some((qemu.pid, qemu.start_ticks)),
            restore: RESTORE.0,
            held: HELD.0,
            taken: RESTORE.0 - HELD.0,
        };
        if dir.join(PAUSED).exists() {
            written.push_str(&format!("{} {}\n", qemu.pid, qemu.start_ticks));
            lease.park(held.clone());
        }
        lease.hold(held);
        if dir.join(SHRUNK).exists() {
            let size = RESTORE.0;
            written.push_str(&format!("{} {} size {size}\n", qemu.pid, qemu.start_ticks));
        }
    }
    if !written.is_empty() {
        fs::write(dir.join(PARKED), written + NOT_FOUND).expect("a file");
    }
    let saved = r#"[["run","0"]]"#;
    lease.set_ksm(Some(serde_json::from_str(saved).expect("settings")));
    println!("keeper {}", lease.keeper_pid().expect("a keeper"));
    let mut now_ms = 0;
    loop {
        if let Ok(how) = fs::read(dir.join("finish")) {
            if how == b"without" {
                let keeper = lease.keeper_pid().and_then(ProcessId::of).expect("a keeper");
                let pid = i32::try_from(keeper.pid).ok().and_then(Pid::from_raw);
                kill_process(pid.expect("a number"), Signal::KILL).expect("a signal");
                while keeper.is_alive() {
                    pause(10);
                }
            }
            assert!(lease.finish().expect("an end").success());
            return;
        }
        now_ms += u64::try_from(pause(100).as_millis()).expect("a short time");
        lease.turn(now_ms);
    }
}

#[test]
fn a_keeper() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let limits = Limits { beat_ms: 5000, rescue_ms: 4000 };
    let options =
        Options { limits, root: Root::at(dir.join("root")), parked: Some(dir.join(PARKED)) };
    let mut messages = Vec::new();
    run(std::io::stdin(), &options, &mut |text| messages.push(text.to_owned())).expect("a run");
    fs::write(dir.join("messages"), messages.join("\n")).expect("a file");
}

#[test]
fn guests_of_a_killed_manager_get_their_memory_back() {
    let scene = Scene::new(4096);
    assert!(scene.told.try_recv().is_err(), "no guest gets a connection while the manager lives");
    scene.signal(Signal::KILL);
    let all = BTreeMap::from(GUESTS.map(|name| (name, RESTORE.0)));
    // The keeper may notice the manager's end before the kernel has closed all of its connections.
    assert_eq!(scene.targets(), all);
    assert_eq!(scene.dir.read("root/sys/kernel/mm/ksm/run"), "0");
    scene.end();
}

#[test]
fn finding2_18_keeper_leaves_written_down_what_it_has_not_woken() {
    let dir = Tree::create();
    dir.file(PAUSED, "");
    let mut scene = Scene::at(dir, 4096);
    scene.signal(Signal::KILL);
    scene.wait();
    let written = scene.dir.read(PARKED);
    assert_eq!(written, NOT_FOUND, "a guest still unknown to its manager stays listed");
}

#[test]
fn report_h10_keeper_strikes_out_only_restored_guests() {
    for (name, available_mib, is_left) in [("enough", 4096, false), ("few", 100, true)] {
        let dir = Tree::create();
        dir.file(SHRUNK, "");
        let mut scene = Scene::at(dir, available_mib);
        scene.signal(Signal::KILL);
        scene.wait();
        let written = scene.dir.read(PARKED);
        let lines = if is_left { 3 } else { 1 };
        assert_eq!(written.lines().count(), lines, "{name}: {written}");
        assert!(written.starts_with(NOT_FOUND));
    }
}

/// A farm hides the socket of a guest that it has parked, and returns the memory when the guest
/// wakes.
#[test]
fn keeper_leaves_a_parked_guest_to_its_farm() {
    let dir = Tree::create();
    dir.file(SHRUNK, "");
    let mut scene = Scene::at(dir, 4096);
    for name in GUESTS {
        let socket = scene.dir.join(format!("{name}.qmp"));
        fs::rename(&socket, socket.with_added_extension("hidden")).expect("a socket");
    }
    scene.signal(Signal::KILL);
    scene.wait();
    assert!(scene.told.try_recv().is_err(), "no guest gets a connection");
    let written = scene.dir.read(PARKED);
    assert_eq!(written, NOT_FOUND, "nothing is left to do");
}

#[test]
fn a_hanging_manager_is_ended_first() {
    let mut scene = Scene::new(4096);
    scene.signal(Signal::STOP);
    assert_eq!(scene.targets_after_its_end().len(), 2);
    let status = scene.manager.wait().expect("its end");
    assert!(!status.success(), "the manager was killed: {status}");
    scene.end();
}

#[test]
fn short_host_memory_is_divided_among_guests() {
    let scene = Scene::new(100);
    scene.signal(Signal::KILL);
    // Of 100 MiB of free memory, 40 MiB are the reserve.
    let each = HELD.0 + (30 << 20);
    assert_eq!(scene.targets().into_values().collect::<Vec<_>>(), [each, each]);
    scene.end();
}

#[test]
fn a_manager_that_ends_in_order_leaves_the_rest_to_its_keeper() {
    let mut scene = Scene::new(4096);
    scene.dir.file("finish", "");
    assert_eq!(scene.targets().len(), 2);
    assert!(scene.manager.wait().expect("its end").success());
    let messages = scene.dir.read("messages");
    assert!(messages.contains("has ended") && messages.contains("memory: 2"), "{messages}");
    scene.end();
}

#[test]
fn keeper_killed_with_its_manager_is_replaced_for_the_end() {
    let mut scene = Scene::new(4096);
    let how = scene.dir.file("how", "without");
    fs::rename(&how, scene.dir.join("finish")).expect("a name");
    assert_eq!(scene.targets().len(), 2);
    assert!(scene.manager.wait().expect("its end").success());
    scene.end();
}
