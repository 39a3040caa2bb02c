//! `pinhead host` in a guest of z/VM, run as a process until its end. A model has twenty users. The
//! users' counters are a file. A script in place of `vmcp` delivers messages to the users' kernels.

use rustix::event::{Timespec, poll};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use zmon::hypfs::{Guest, guests_bytes};
use zmon::{Tod, to_ebcdic};

const USERS: usize = 20;
const SIZE_MIB: u64 = 1_024;
const ALL_MIB: u64 = 16 * 1_024;
/// Timeout that exceeds the manager's needs even on a busy machine.
const LONG: Duration = Duration::from_secs(120);
/// Time limit within which the keeper must return all memory to the guests.
const RESCUE: Duration = Duration::from_secs(30);
const LOOK_MS: u32 = 50;

struct Scene {
    dir: PathBuf,
    manager: Child,
    pools_mib: [u64; USERS],
    messages: usize,
    passed: Duration,
}

/// Writes a script that logs its arguments. Another process writes the script, because a child that
/// this process starts meanwhile must not hold the script open for writing.
fn script(path: &Path) {
    let words = format!("#!/bin/sh\necho \"$@\" >> {}\n", path.with_extension("log").display());
    let mut sh = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 700 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    sh.stdin.take().expect("its input").write_all(words.as_bytes()).expect("a script");
    assert!(sh.wait().expect("its end").success());
}

impl Scene {
    fn new(name: &str) -> Scene {
        let dir = std::env::temp_dir().join(format!("pinhead-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        script(&dir.join("vmcp"));
        fs::write(dir.join("vmcp.log"), "").expect("a file");
        fs::write(dir.join("vmrm"), "/* VMRM's */\nNOTIFY MEMORY LINUX*\n").expect("a file");
        let settings = format!(
            "[zvm]\nmode = \"manage\"\nmemory = \"{ALL_MIB} MiB\"\nnotify = \"vmrm\"\n\
             counters = \"{0}/diag_2fc\"\nprogram = \"{0}/vmcp\"\n\
             [journal]\npath = \"{0}/journal.db\"\n\
             [pageout]\nmode = \"off\"\n[control]\nsocket = \"{0}/host.sock\"\n",
            dir.display()
        );
        fs::write(dir.join("host.toml"), settings).expect("settings");
        let manager = Command::new(env!("CARGO_BIN_EXE_pinhead"))
            .args(["host", "--config"])
            .arg(dir.join("host.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a manager");
        let pools_mib = [0; USERS];
        Scene { dir, manager, pools_mib, messages: 0, passed: Duration::ZERO }
    }

    /// Delivers the logged messages to the model, and updates z/VM's counters.
    fn live(&mut self) {
        let log = fs::read_to_string(self.dir.join("vmcp.log")).expect("a log");
        // An incomplete last line is still being written.
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        for message in whole.lines().skip(self.messages) {
            self.messages += 1;
            let words: Vec<&str> = message.split(' ').collect();
            let ["smsg", name, "CMM", "SHRINK", pages] = words[..] else { panic!("{message}") };
            let number = name.strip_prefix("LINUX").expect("one of ours").parse::<usize>();
            let pages: u64 = pages.parse().expect("a number");
            self.pools_mib[number.expect("a number")] = pages / 256;
        }
        let guest = |(number, pool_mib): (usize, &u64)| Guest {
            name: to_ebcdic(&format!("LINUX{number:02}")),
            elapsed_us: self.passed.as_micros() as u64,
            used_us: self.passed.as_micros() as u64 / 10,
            memory_max: SIZE_MIB << 10,
            memory_used: (SIZE_MIB - pool_mib) << 10,
            virtual_cpus: 1,
            ..Guest::default()
        };
        let mut all: Vec<Guest> = self.pools_mib.iter().enumerate().map(guest).collect();
        all.push(Guest { name: to_ebcdic("MAINT"), memory_max: 1 << 18, ..Guest::default() });
        let new = self.dir.join("new");
        fs::write(&new, guests_bytes(&all, Tod(1))).expect("a file");
        fs::rename(new, self.dir.join("diag_2fc")).expect("a name");
    }

    fn free_mib(&self) -> u64 {
        let used: u64 = self.pools_mib.iter().map(|pool_mib| SIZE_MIB - pool_mib).sum();
        ALL_MIB.saturating_sub(used)
    }

    /// Runs the model until a condition holds. Returns the elapsed time.
    fn until(&mut self, what: &str, limit: Duration, holds: impl Fn(&Scene) -> bool) -> Duration {
        let before = self.passed;
        loop {
            self.live();
            let took = self.passed - before;
            if holds(self) {
                return took;
            }
            assert!(took < limit, "{what}: {:?}, {} MiB are free", self.pools_mib, self.free_mib());
            let time = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_MS) * 1_000_000 };
            poll(&mut [], Some(&time)).expect("a poll of nothing");
            self.passed += Duration::from_millis(LOOK_MS.into());
        }
    }

    /// Returns the messages of the manager and its keeper after both have ended.
    fn told(&mut self) -> String {
        let mut told = String::new();
        let mut errors = self.manager.stderr.take().expect("its messages");
        errors.read_to_string(&mut told).expect("text");
        told
    }

    fn pinhead(&self, words: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_pinhead"))
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.manager.kill();
        let _ = self.manager.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns true if the free memory reaches the set point, a tenth of all memory, less the
/// hysteresis, a hundredth of all memory.
fn is_held(scene: &Scene) -> bool {
    scene.free_mib() >= ALL_MIB * 9 / 100
}

#[test]
fn users_have_all_memory_back_within_30_s_of_managers_kill() {
    let mut scene = Scene::new("zvm-kill");
    let took = scene.until("the set point is not held", LONG, is_held);
    println!("{} MiB are free after {took:?}, {} messages", scene.free_mib(), scene.messages);
    let socket = scene.dir.join("host.sock").display().to_string();
    let shown = scene.pinhead(&["ps", "--socket", &socket]);
    assert!(shown.contains("LINUX00") && shown.contains("MAINT"), "{shown}");
    let why = scene.pinhead(&[
        "why",
        "LINUX00",
        "--journal",
        &scene.dir.join("journal.db").display().to_string(),
    ]);
    assert!(why.contains("LINUX00"), "{why}");

    scene.manager.kill().expect("it is killed");
    let took = scene.until("some are small", RESCUE, |scene| scene.pools_mib == [0; USERS]);
    println!("all have their memory back after {took:?}");
    let told = scene.told();
    assert!(told.contains("the message to take all memory back"), "{told}");
    scene.live();
    assert_eq!(scene.pools_mib, [0; USERS], "no late message arrived");
    let log = fs::read_to_string(scene.dir.join("vmcp.log")).expect("a log");
    assert!(!log.contains("MAINT"), "MAINT is not managed: {log}");
}

#[test]
fn stopped_manager_returns_memory_and_its_passes_replay() {
    let mut scene = Scene::new("zvm-end");
    scene.until("the set point is not held", LONG, is_held);
    let pid = rustix::process::Pid::from_child(&scene.manager);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    scene.until("some are small", RESCUE, |scene| scene.pools_mib == [0; USERS]);
    let told = scene.told();
    assert!(told.contains("the message to take all memory back"), "{told}");
    assert!(scene.manager.wait().expect("its end").success(), "{told}");
    let dir = |name: &str| scene.dir.join(name).display().to_string();
    let (journal, recordings) = (dir("journal.db"), dir("recordings"));
    let replayed = scene.pinhead(&[
        "replay",
        "--from",
        "1d ago",
        "--format",
        "json",
        "--dir",
        &recordings,
        "--journal",
        &journal,
    ]);
    let replayed: serde_json::Value = serde_json::from_str(&replayed).expect("JSON");
    let number = |name: &str| replayed["agreement"][name].as_u64().expect("a number");
    let [all, same, moves] = ["decisions", "same", "moves"].map(number);
    println!("decided again: {same} of {all}, {moves} of them moves");
    assert!(moves > 0 && same * 100 >= all * 95, "{same} of {all} are the same");
    let report = scene.pinhead(&["report", "GUEST1", "--dir", &recordings]);
    assert!(report.contains("LINUX00"), "{report}");
}
