//! Reader of the processes that are not guests, and of the kernel's threads.
//!
//! ```text
//!   /proc/PID/stat of all ─► run time of each process and of its ended children
//!     ─► growth since the last reading, without guests and manager ─► two sums
//! ```
//!
//! The run time of a process that starts and ends between two readings is not lost. When the parent
//! waits for the process, the kernel adds the run time to that of the parent's children. The part
//! that earlier readings counted is subtracted again, at the latest after the next reading. The
//! delay is needed because a reading takes time: it may see the end of a process, but not yet the
//! parent's wait. If a parent ignores its children, the kernel drops their run time, and the sum is
//! too low.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::threads::TICK_NS;
use procfs::parse::number;
use procfs::parse::task::StatField::{
    ChildSystemTicks, ChildUserTicks, Flags, StartTicks, SystemTicks, UserTicks,
};
use procfs::parse::task::{TaskStat, is_kernel};
use procfs::{Buffer, Kept};

/// Maximum number of processes. More processes would take the monitor over 50 ms.
const PROCESSES_MAX: usize = 4096;
/// Milliseconds per process between two readings. Reading a process takes 10 to 20 µs, so the load
/// stays below half a thousandth of a CPU.
const APART_MS_EACH: u64 = 40;
/// Minimum interval between readings, about the interval between moments.
const APART_MIN_MS: u64 = 900;
/// Maximum interval between readings. The row of each minute needs at least one reading.
const APART_MAX_MS: u64 = 60_000;
/// Length of a minute, and the time in a minute from which a moment is the minute's last. The last
/// moment must include all run time.
const MINUTE_MS: i64 = 60_000;
const LAST_OF_MINUTE_MS: i64 = MINUTE_MS - 1_050;

/// Run time of other processes since the first reading, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Run time of processes, including their ended children.
    pub(crate) processes_ns: u64,
    /// Run time of the kernel's threads.
    pub(crate) kernel_ns: u64,
}

/// Fields of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    is_kernel: bool,
    start_ticks: u64,
    /// CPU time of all threads.
    own_ns: u64,
    /// CPU time of ended children that the process has waited for, including the children's own
    /// children.
    children_ns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Others {
    proc: PathBuf,
    own: Option<u32>,
    seen: BTreeMap<u32, Process>,
    looked_ms: Option<u64>,
    /// Run time of ended children, as counted by the last reading.
    ended_ns: u64,
    /// Run time of processes that had ended by the last reading, although their parents had not
    /// waited for them yet.
    late_ns: u64,
    /// Run time that the last reading counted twice. The reading saw a process alive, and later saw
    /// the parent after its wait for the process.
    twice_ns: u64,
    ran: Ran,
    buffer: Buffer,
}

impl Others {
    /// Creates a reader of all processes below a root, except the calling process.
    pub(crate) fn open(root: &Path) -> Others {
        let mut buffer = Buffer::default();
        let text = Kept::open(&root.join("proc/self/stat"));
        let pid = text.once(&mut buffer).and_then(|text| text.split(|byte| *byte == b' ').next());
        let own = pid.and_then(number).and_then(|pid| u32::try_from(pid).ok());
        Others { proc: root.join("proc"), own, buffer, ..Others::default() }
    }

    /// Returns true if a reading is due. `now_ms` is on a monotonic clock, `at_ms` since 1970.
    pub(crate) fn is_due(&self, now_ms: u64, at_ms: i64) -> bool {
        let apart_ms = (self.seen.len() as u64).saturating_mul(APART_MS_EACH);
        let apart_ms = apart_ms.clamp(APART_MIN_MS, APART_MAX_MS);
        let is_last = at_ms.saturating_sub(1).rem_euclid(MINUTE_MS) >= LAST_OF_MINUTE_MS;
        is_last || self.looked_ms.is_none_or(|then| now_ms.saturating_sub(then) >= apart_ms)
    }

    /// Reads all processes. The `guests` are counted elsewhere.
    pub(crate) fn look(&mut self, now_ms: u64, guests: &BTreeSet<u32>) {
        let is_first = self.looked_ms.replace(now_ms).is_none();
        let Some(now) = self.all() else {
            (self.seen, self.looked_ms) = (BTreeMap::new(), None);
            (self.ended_ns, self.late_ns, self.twice_ns) = (0, 0, 0);
            return;
        };
        let (mut children_ns, mut gone_ns) = (0_u64, 0_u64);
        for (pid, process) in &now {
            let before = self.seen.get(pid).filter(|seen| seen.start_ticks == process.start_ticks);
            let (own, children) = before.map_or((0, 0), |seen| (seen.own_ns, seen.children_ns));
            let grown_ns = process.own_ns.saturating_sub(own);
            let grown_children_ns = process.children_ns.saturating_sub(children);
            children_ns = children_ns.saturating_add(grown_children_ns);
            if is_first || guests.contains(pid) || self.own == Some(*pid) {
                continue;
            }
            let sum = match process.is_kernel {
                true => &mut self.ran.kernel_ns,
                false => &mut self.ran.processes_ns,
            };
            *sum = sum.saturating_add(grown_ns);
        }
        for (pid, seen) in &self.seen {
            if now.get(pid).is_none_or(|process| process.start_ticks != seen.start_ticks) {
                gone_ns = gone_ns.saturating_add(seen.own_ns).saturating_add(seen.children_ns);
            }
        }
        if !is_first {
            self.end(children_ns, gone_ns);
        }
        self.seen = now;
    }

    /// Counts the run time of ended children, from parents' waits and from processes that have
    /// disappeared. A wait and the matching disappearance may show in two consecutive readings.
    fn end(&mut self, children_ns: u64, gone_ns: u64) {
        let left_ns = children_ns.saturating_sub(self.late_ns);
        let (left_ns, gone_ns) = (left_ns.saturating_sub(gone_ns), gone_ns.saturating_sub(left_ns));
        let twice_ns = gone_ns.min(self.ended_ns);
        self.late_ns = gone_ns - twice_ns;
        let owed_ns = self.twice_ns.saturating_add(twice_ns);
        self.twice_ns = owed_ns.saturating_sub(left_ns);
        self.ended_ns = left_ns.saturating_sub(owed_ns);
        self.ran.processes_ns = self.ran.processes_ns.saturating_add(self.ended_ns);
    }

    /// Returns the run time of a process at the last reading, guest or not.
    pub(crate) fn own_ns(&self, pid: u32) -> Option<u64> {
        self.seen.get(&pid).map(|seen| seen.own_ns)
    }

    /// Returns the run time up to the last reading, or `None` if processes are not readable.
    pub(crate) fn ran(&self) -> Option<Ran> {
        self.looked_ms.map(|_| self.ran)
    }

    /// Returns all processes; `None` if there are too many processes, or no process is visible.
    fn all(&mut self) -> Option<BTreeMap<u32, Process>> {
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir(&self.proc).ok()?.flatten() {
            let name = entry.file_name();
            let Some(pid) = number(name.as_encoded_bytes()) else { continue };
            let Ok(pid) = u32::try_from(pid) else { continue };
            if all.len() >= PROCESSES_MAX {
                return None;
            }
            let mut path = self.proc.join(name);
            path.push("stat");
            // A process that has just ended is left out: the parent's run time includes its run
            // time.
            let text = Kept::open(&path);
            if let Some(process) = text.once(&mut self.buffer).and_then(Process::parse) {
                all.insert(pid, process);
            }
        }
        (!all.is_empty()).then_some(all)
    }
}

impl Process {
    fn parse(text: &[u8]) -> Option<Process> {
        let wanted = [Flags, UserTicks, SystemTicks, ChildUserTicks, ChildSystemTicks, StartTicks];
        let [flags, user, system, child_user, child_system, start_ticks] =
            TaskStat::parse(text)?.numbers(wanted)?;
        let ns = |user: u64, system: u64| user.checked_add(system)?.checked_mul(TICK_NS);
        let (own_ns, children_ns) = (ns(user, system)?, ns(child_user, child_system)?);
        Some(Process { is_kernel: is_kernel(flags), start_ticks, own_ns, children_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const PF_KTHREAD: u64 = 0x0020_0000;

    /// Writes a process with its own ticks and the ticks of its children.
    fn process(tree: &Tree, pid: u32, start: u64, own: u64, children: u64) {
        let flags = if pid < 10 { PF_KTHREAD } else { 0 };
        tree.file(
            &format!("proc/{pid}/stat"),
            &format!(
                "{pid} (a) b) S 1 1 1 0 -1 {flags} 0 0 0 0 {own} 0 {children} 0 20 0 1 0 {start}\n"
            ),
        );
    }

    fn ms(others: &Others) -> (u64, u64) {
        let ran = others.ran().unwrap();
        (ran.processes_ns / 1_000_000, ran.kernel_ns / 1_000_000)
    }

    #[test]
    fn run_time_is_counted_once_when_processes_come_and_go() {
        let tree = Tree::new();
        process(&tree, 1, 0, 7, 0);
        process(&tree, 20, 5, 100, 1000);
        process(&tree, 30, 5, 100, 0);
        process(&tree, 40, 5, 100, 0);
        tree.file("proc/self/stat", "40 (pinhead) R 1\n");
        let mut others = Others::open(tree.path());
        let guests = BTreeSet::from([30]);
        assert_eq!(others.ran(), None);
        others.look(0, &guests);
        assert_eq!(ms(&others), (0, 0), "earlier run time does not count");

        // A guest and the manager also run, but are counted elsewhere.
        process(&tree, 1, 0, 9, 0);
        process(&tree, 20, 5, 110, 1000);
        process(&tree, 30, 5, 900, 0);
        process(&tree, 40, 5, 900, 0);
        process(&tree, 50, 80, 3, 0);
        others.look(1000, &guests);
        assert_eq!(ms(&others), (130, 20));

        // The child has ended. Its run time now counts for its parent, like the run time of another
        // child that was never read.
        tree.remove("proc/50");
        process(&tree, 20, 5, 110, 1000 + 4 + 50);
        others.look(2000, &guests);
        assert_eq!(ms(&others), (130 + 10 + 500, 20));

        // A guest ends. Its run time now counts for its parent, but must not count for other
        // processes.
        tree.remove("proc/30");
        process(&tree, 20, 5, 110, 1000 + 54 + 900);
        others.look(3000, &BTreeSet::new());
        assert_eq!(ms(&others), (640, 20));

        process(&tree, 20, 600, 5, 0);
        others.look(4000, &guests);
        assert_eq!(ms(&others), (640 + 50, 20));
    }

    #[test]
    fn child_gone_before_its_parent_waits_is_counted_once() {
        let tree = Tree::new();
        process(&tree, 20, 5, 100, 0);
        process(&tree, 50, 6, 500, 0);
        let mut others = Others::open(tree.path());
        let nobody = BTreeSet::new();
        others.look(0, &nobody);
        tree.remove("proc/50");
        others.look(1000, &nobody);
        process(&tree, 20, 5, 100, 503);
        others.look(2000, &nobody);
        assert_eq!(ms(&others), (30, 0));
    }

    #[test]
    fn child_counted_twice_is_subtracted_again() {
        let tree = Tree::new();
        process(&tree, 20, 5, 100, 0);
        process(&tree, 10, 6, 500, 0);
        let mut others = Others::open(tree.path());
        let nobody = BTreeSet::new();
        others.look(0, &nobody);
        process(&tree, 20, 5, 100, 500);
        others.look(1000, &nobody);
        assert_eq!(ms(&others), (5000, 0));
        tree.remove("proc/10");
        others.look(2000, &nobody);
        process(&tree, 20, 5, 100, 500 + 300);
        others.look(3000, &nobody);
        assert_eq!(ms(&others), (5000, 0));
        process(&tree, 20, 5, 100, 500 + 300 + 210);
        others.look(4000, &nobody);
        assert_eq!(ms(&others), (5100, 0), "ended children ran 5100 ms");
    }

    #[test]
    fn a_parent_that_does_not_wait_adds_no_run_time() {
        let tree = Tree::new();
        process(&tree, 20, 5, 100, 0);
        process(&tree, 50, 6, 500, 0);
        let mut others = Others::open(tree.path());
        let nobody = BTreeSet::new();
        others.look(0, &nobody);
        tree.remove("proc/50");
        process(&tree, 20, 5, 101, 0);
        others.look(1000, &nobody);
        assert_eq!(ms(&others), (10, 0));
    }

    #[test]
    fn readings_are_spaced_by_load_and_one_ends_each_minute() {
        let tree = Tree::new();
        (100..400).for_each(|pid| process(&tree, pid, 5, 1, 0));
        let mut others = Others::open(tree.path());
        assert!(others.is_due(0, 30_000));
        others.look(0, &BTreeSet::new());
        assert!(!others.is_due(11_900, 30_000) && others.is_due(12_000, 30_000));
        assert!(others.is_due(1, 59_500) && others.is_due(1, 60_000) && !others.is_due(1, 60_001));
    }

    #[test]
    fn unreadable_processes_have_no_run_time() {
        let tree = Tree::new();
        let mut others = Others::open(tree.path());
        others.look(0, &BTreeSet::new());
        assert_eq!(others.ran(), None);
        tree.file("proc/7/stat", "7 (x) S 18446744073709551615\n");
        others.look(1, &BTreeSet::new());
        assert_eq!(others.ran(), None);
    }
}
