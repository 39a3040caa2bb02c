//! `pinhead host` as a process next to a fleet of real guests.
//!
//! ```text
//!   Place (a directory) ── g1.qmp g1.port ... ◄── QEMUs of the fleet
//!                       ── host.toml, host.sock, journal.db ◄── Manager (a process)
//! ```
//!
//! The budget in the manager's settings limits the guests' total memory, so that a machine with
//! much memory acts as a small, full host.

use crate::{Host, LOOK, scratch};
use manager::control::{Answer, Ask, GuestRow, Ps, Status, ask};
use procfs::parse::numbers;
use procfs::{Root, TaskDir};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use store::{Decided, Event, Journal, Policy, Query, Range};
use vm::{Deadline, Monitor, Scratch, wait_for_exit};

/// Timeout of a manager's response. The manager shares two cores with emulated guests.
const ANSWER: Duration = Duration::from_secs(30);
/// Timeout of a manager's start and of its orderly exit.
const PATIENCE: Duration = Duration::from_secs(120);
const PAGE_BYTES: u64 = 4096;
/// More events than a test can cause.
const EVENTS_MAX: u32 = 10_000;

/// A directory for sockets, settings and the journal. It is removed at the end of the test.
#[derive(Debug)]
pub struct Place {
    dir: Scratch,
}

impl Place {
    /// Makes a new directory.
    #[allow(clippy::new_without_default, reason = "a default would hide that it makes one")]
    pub fn new() -> Place {
        Place { dir: scratch("host") }
    }

    /// Returns the path of the directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the path of the manager's socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("host.sock")
    }

    fn journal(&self) -> PathBuf {
        self.dir.join("journal.db")
    }

    /// Sets a guest's balloon through its second monitor, and waits until the guest has this much
    /// memory. No manager may be connected to the monitor.
    pub fn balloon(&self, name: &str, mib: u64) {
        let stream = UnixStream::connect(self.dir.join(format!("{name}.qmp")));
        let mut monitor = Monitor::new(stream.unwrap_or_else(|e| panic!("{name}: {e}")));
        let soon = || Deadline::after(PATIENCE);
        let done = monitor.call(qmp::Command::Balloon { value_bytes: mib << 20 }, soon());
        done.unwrap_or_else(|e| panic!("the balloon of {name}: {e}"));
        let there = wait_until(PATIENCE, || {
            let answer = monitor.call(qmp::Command::QueryBalloon, soon());
            matches!(answer, Ok(qmp::Reply::Balloon { actual_bytes }) if actual_bytes >> 20 == mib)
        });
        assert!(there.is_some(), "the balloon of {name} is not as set");
    }

    /// Replays the recordings of managers in this directory, and returns the number of decisions
    /// that moved memory. At least 95 % of the decisions must match the journal: same guest, time
    /// and direction, and a target within 5 %.
    pub fn replayed(&self) -> u64 {
        let mut command = Command::new(crate::program());
        command.args(["replay", "--from", "1d ago", "--format", "json", "--dir"]);
        command.arg(self.dir.join("recordings")).arg("--journal").arg(self.journal());
        let output = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{e}"));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let number = |name: &str| answer["agreement"][name].as_u64().unwrap_or(0);
        let [all, same, moves] = ["decisions", "same", "moves"].map(number);
        println!(
            "decided again: {same} of {all} decisions, {} of {moves} moves",
            number("same_moves")
        );
        assert!(all > 0 && same * 100 >= all * 95, "{}", self.replay_text());
        moves
    }

    fn replay_text(&self) -> String {
        let mut command = Command::new(crate::program());
        command.args(["replay", "--from", "1d ago", "--dir"]).arg(self.dir.join("recordings"));
        let output = command.arg("--journal").arg(self.journal()).output();
        output.map_or_else(|e| e.to_string(), |o| String::from_utf8_lossy(&o.stdout).into_owned())
    }

    /// Writes the settings of a host of this size. KSM and swap stay unchanged unless `more` sets
    /// them. Both belong to the whole machine, where other tests run, and swap may be missing.
    /// Merged pages would also change how guests are counted.
    pub fn settings(&self, size: &Size, more: &str) -> PathBuf {
        self.settings_for(self.dir.path(), size, more)
    }

    /// Writes the settings of a manager for guests with sockets in this directory.
    pub fn settings_for(&self, sockets: &Path, size: &Size, more: &str) -> PathBuf {
        let path = self.dir.join("host.toml");
        let dir = sockets.display();
        let unless = |table: &str, mode: &str| match more.contains(table) {
            true => String::new(),
            false => format!("\n{table}\nmode = \"{mode}\"\n"),
        };
        let (ksm, page_out) = (unless("[ksm]", "leave"), unless("[pageout]", "off"));
        let text = format!(
            "[host]\nbudget = \"{} MiB\"\nset_point = \"{} MiB\"\nhysteresis = \"{} MiB\"\n\
             reserve = \"{} MiB\"\n\n[sources]\nqmp = [\"{dir}/*.qmp\"]\nlibvirt = []\n\n\
             [journal]\npath = \"{}\"\n\n[control]\nsocket = \"{}\"\n{more}{ksm}{page_out}",
            size.budget_mib,
            size.set_point_mib,
            size.hysteresis_mib,
            size.reserve_mib,
            self.journal().display(),
            self.socket().display()
        );
        std::fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }
}

/// Size of a host, as simulated by the budget, in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Memory that the guests may use together.
    pub budget_mib: u64,
    /// Part of the budget that should be free.
    pub set_point_mib: u64,
    /// Tolerated deviation from the set point.
    pub hysteresis_mib: u64,
    /// Memory that no grant uses.
    pub reserve_mib: u64,
}

impl Size {
    /// Returns a size with this much free memory in addition to the memory that a fleet uses now.
    pub fn with_free(host: &Host, guests: usize, free_mib: u64) -> Size {
        let (private, shared): (Vec<u64>, Vec<u64>) =
            (0..guests).map(|n| held_mib(host, n)).unzip();
        let used = private.iter().sum::<u64>() + shared.iter().max().unwrap_or(&0);
        let budget_mib = used + MANAGER_MIB + free_mib;
        Size { budget_mib, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 }
    }
}

/// Approximate memory of a manager itself, which counts towards the budget.
const MANAGER_MIB: u64 = 8;

/// Returns the size of a guest's private memory on the host, in MiB.
pub fn resident_mib(host: &Host, index: usize) -> u64 {
    held_mib(host, index).0
}

fn held_mib(host: &Host, index: usize) -> (u64, u64) {
    let pid = host.seen(index).pid.unwrap_or_else(|| panic!("guest {index} has no process"));
    let text = std::fs::read(format!("/proc/{pid}/statm")).unwrap_or_default();
    let [_, pages, shared] = numbers(&text).unwrap_or_else(|| panic!("{pid} has no memory"));
    (((pages - shared) * PAGE_BYTES) >> 20, (shared * PAGE_BYTES) >> 20)
}

/// Returns the CPU time of a process, for all of its threads.
pub fn cpu_time(pid: u32) -> Duration {
    let mut tasks = TaskDir::open(&Root::default());
    let run_ns = tasks.of_process(pid, usize::MAX).iter().map(|task| task.ran.run_ns);
    Duration::from_nanos(run_ns.sum())
}

/// Sends a signal to a process that a test has started.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "SIG{name} to {pid}");
}

/// Lets guests run for the time of a measurement. To wait for a condition, use [`wait_until`].
pub fn observe(time: Duration) {
    let deadline = Deadline::after(time);
    while let Some(left) = deadline.remaining() {
        // The pause waits for this process's own exit, which cannot come.
        let _ = wait_for_exit(std::process::id(), left);
    }
}

/// Polls until a condition holds, and returns how long that took. Returns `None` at the limit.
pub fn wait_until(limit: Duration, mut so: impl FnMut() -> bool) -> Option<Duration> {
    let deadline = Deadline::after(limit);
    while !so() {
        deadline.remaining()?;
        // The pause waits for this process's own exit, which cannot come.
        let _ = wait_for_exit(std::process::id(), LOOK);
    }
    Some(deadline.elapsed())
}

/// A running manager.
#[derive(Debug)]
pub struct Manager<'a> {
    child: Child,
    place: &'a Place,
}

impl<'a> Manager<'a> {
    /// Starts a manager.
    pub fn spawn(place: &'a Place, settings: &Path) -> Manager<'a> {
        let mut log = std::fs::File::options();
        let log = log.create(true).append(true).open(place.dir.join("log"));
        let log = log.unwrap_or_else(|e| panic!("a file for its log: {e}"));
        let mut command = Command::new(crate::program());
        command.arg("host").arg("--config").arg(settings);
        command.stdin(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap_or_else(|e| panic!("pinhead host: {e}"));
        Manager { child, place }
    }

    /// Starts a manager, and waits until it responds.
    pub fn start(place: &'a Place, settings: &Path) -> Manager<'a> {
        let mut manager = Manager::spawn(place, settings);
        let there = wait_until(PATIENCE, || {
            let ended = manager.child.try_wait().unwrap_or_else(|e| panic!("its state: {e}"));
            assert!(ended.is_none(), "the manager ended at once: {}", manager.log());
            ask(&place.socket(), &Ask::Status, ANSWER).is_ok()
        });
        assert!(there.is_some(), "the manager does not respond: {}", manager.log());
        manager
    }

    /// Returns the manager's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the standard error of the manager and its keepers.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.place.dir.join("log")).unwrap_or_default()
    }

    /// Returns the manager's guests.
    pub fn ps(&self) -> Ps {
        match ask(&self.place.socket(), &Ask::Ps, ANSWER) {
            Ok(Answer::Ps(ps)) => ps,
            other => panic!("{other:?}\n{}", self.log()),
        }
    }

    /// Returns the manager's status.
    pub fn status(&self) -> Status {
        match ask(&self.place.socket(), &Ask::Status, ANSWER) {
            Ok(Answer::Status(status)) => *status,
            other => panic!("{other:?}\n{}", self.log()),
        }
    }

    /// Returns one of the manager's guests.
    pub fn row(&self, name: &str) -> GuestRow {
        let ps = self.ps();
        row(&ps, name).cloned().unwrap_or_else(|| panic!("there is no {name}: {}", table(&ps)))
    }

    /// Waits until a condition holds for the manager's guests, and returns how long that took.
    pub fn until(&self, what: &str, limit: Duration, so: impl Fn(&Ps) -> bool) -> Duration {
        let mut last = None;
        let took = wait_until(limit, || so(last.insert(self.ps())));
        took.unwrap_or_else(|| {
            let now = last.as_ref().map_or_else(String::new, table);
            panic!("not within {limit:?}: {what}\n{now}\n{}\n{}", self.journal_text(), self.log())
        })
    }

    /// Waits until the manager has data from the balloons or daemons of this many guests, and
    /// decides.
    pub fn knows(&self, guests: usize) {
        self.until("it knows all guests", PATIENCE, |ps| {
            ps.guests.iter().filter(|guest| guest.age_ms.is_some()).count() >= guests
                && self.status().passes > 1
        });
    }

    /// Runs a command of `pinhead` with the manager's socket.
    pub fn command(&self, words: &[&str]) -> Output {
        let mut command = Command::new(crate::program());
        command.args(words).arg("--socket").arg(self.place.socket()).stdin(Stdio::null());
        command.output().unwrap_or_else(|e| panic!("{words:?}: {e}"))
    }

    /// Runs a command that must succeed, and returns its output.
    pub fn succeed(&self, words: &[&str]) -> String {
        let output = self.command(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sends a signal to the manager.
    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for the manager's exit.
    pub fn end(&mut self, limit: Duration) -> ExitStatus {
        let gone = wait_until(limit, || matches!(self.child.try_wait(), Ok(Some(_))));
        assert!(gone.is_some(), "the manager does not end within {limit:?}: {}", self.log());
        self.child.wait().unwrap_or_else(|e| panic!("its end: {e}"))
    }

    /// Returns the manager's decisions about guests of this name, oldest first.
    pub fn decisions(&self, name: &str) -> Vec<Decided> {
        let journal = self.journal();
        let all = journal.guests().unwrap_or_else(|e| panic!("{e}"));
        let guests = all.iter().filter(|row| row.guest.name == name).map(|row| row.key).collect();
        let mut found = Vec::new();
        let query = Query { guests, policy: Some(Policy::Active), range: always() };
        let read = journal.decisions(&query, |decided| {
            found.push(decided);
            ControlFlow::Continue(())
        });
        read.unwrap_or_else(|e| panic!("{e}"));
        found
    }

    /// Returns the manager's events, oldest first.
    pub fn events(&self) -> Vec<Event> {
        let journal = self.journal();
        let all = journal.guests().unwrap_or_else(|e| panic!("{e}"));
        let guests: Vec<_> = all.iter().map(|row| row.key).collect();
        let found = journal.events(&guests, always(), EVENTS_MAX);
        found.unwrap_or_else(|e| panic!("{e}")).into_iter().map(|one| one.event).collect()
    }

    /// Returns the identities of guests with this name from the manager's journal.
    pub fn identities(&self, name: &str) -> Vec<model::GuestIdentity> {
        let all = self.journal().guests().unwrap_or_else(|e| panic!("{e}"));
        all.into_iter().map(|row| row.guest).filter(|guest| guest.name == name).collect()
    }

    fn journal(&self) -> Journal {
        let path = self.place.journal();
        Journal::read_only(&path).unwrap_or_else(|e| panic!("{e}: {}", self.log()))
    }

    /// Returns the whole journal as text, for the message of a failed test.
    pub fn journal_text(&self) -> String {
        let mut out = String::new();
        let guests = self.journal().guests().unwrap_or_default();
        let names: BTreeSet<String> = guests.into_iter().map(|row| row.guest.name).collect();
        for name in names {
            for one in self.decisions(&name) {
                let _ = writeln!(out, "{}", line(&name, &one));
            }
        }
        for event in self.events() {
            let _ = writeln!(out, "{} {}: {}", event.at_ms, event.kind, event.text);
        }
        out
    }
}

impl Drop for Manager<'_> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            if std::thread::panicking() {
                eprintln!("--- the log of the manager\n{}", self.log());
            }
            signal(self.child.id(), "TERM");
            let ended = wait_until(PATIENCE, || !matches!(self.child.try_wait(), Ok(None)));
            if ended.is_none() {
                let _ = self.child.kill();
            }
        }
        let _ = self.child.wait();
    }
}

fn always() -> Range {
    Range { from_ms: i64::MIN, to_ms: i64::MAX }
}

/// Returns the row of a guest.
pub fn row<'a>(ps: &'a Ps, name: &str) -> Option<&'a GuestRow> {
    ps.guests.iter().find(|guest| guest.name == name)
}

/// Returns a guest's memory, in MiB.
pub fn actual_mib(row: &GuestRow) -> u64 {
    row.actual_bytes.unwrap_or(0) >> 20
}

/// Formats a decision as one line.
pub fn line(name: &str, one: &Decided) -> String {
    let Decided { decision, outcomes, .. } = one;
    let fate = outcomes.last().map_or("-", |outcome| outcome.fate.name());
    let known = decision.inputs.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    let inputs: Vec<String> = known.map(|(name, value)| format!("{name}={value}")).collect();
    format!(
        "{} {name} {} {}: {} -> {} MiB, {fate}: {}\n    {}",
        decision.at_ms,
        decision.action,
        decision.clause,
        decision.from_bytes >> 20,
        decision.to_bytes >> 20,
        decision.reason(),
        inputs.join(" ")
    )
}

/// Formats all guests as text, for the message of a failed test.
pub fn table(ps: &Ps) -> String {
    let mib = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |b| (b >> 20).to_string());
    let mut out = format!("host: {} MiB free\n", mib(ps.host.available_bytes));
    for guest in &ps.guests {
        let _ = writeln!(
            out,
            "{} {} has {} of {} MiB, resident {}, available {}, needs {}, age {:?} ms: {:?}",
            guest.name,
            guest.state,
            mib(guest.actual_bytes),
            guest.memory_bytes >> 20,
            mib(guest.resident_bytes),
            mib(guest.available_bytes),
            mib(guest.need_bytes),
            guest.age_ms,
            guest.unusable.as_ref().or(guest.reason.as_ref())
        );
    }
    out
}

/// Returns the settings of the kernel's page sharing.
pub fn ksm() -> Vec<(&'static str, String)> {
    let read = |name| {
        let text = std::fs::read_to_string(format!("/sys/kernel/mm/ksm/{name}"));
        (name, text.unwrap_or_default())
    };
    ["run", "pages_to_scan", "sleep_millisecs"].map(read).to_vec()
}
