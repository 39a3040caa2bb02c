//! The part of a time span in which a process could have made progress.
//!
//! ```text
//!   /proc ─► Work: it ran, waited for a CPU, waits for a disk, was stopped
//!              │
//!              └─► Chance: of the time since the last look, what counts ─► a deadline
//! ```
//!
//! An elapsed time alone proves nothing. On a host without a free CPU or disk a process is late
//! through no fault of its own. After a pause of the whole machine all deadlines have passed.

use crate::file::Root;
use crate::parse::task::TaskStat;
use crate::tasks::{TaskDir, TaskSeen};

/// Gap between two checks above which the observer itself was delayed, for example by a pause of
/// the whole machine. It is unknown if the process could run in that gap, so the process gets its
/// full time again. This happens only once, because on a host that thrashes each check may be late.
const LATE_MS: u64 = 5_000;
/// Maximum gap before a further late check. A tenth of the gap counts, up to this maximum. The
/// machine may be paused twice.
const LATE_MAX_MS: u64 = 60_000;
/// Minimum time between two checks. For a shorter time the kernel's counters are too coarse, and
/// both checks count as one check.
const STEP_MS: u64 = 200;
/// Divisor for the part of the time that always counts. Without this part, the wait for a process
/// that stays stopped or has lost its disk would never end.
const LEAST_PART: u64 = 10;
/// Maximum number of threads of a process that are read.
const THREADS_MAX: usize = 1_024;
const NS_A_MS: u64 = 1_000_000;

/// Work of a process since its start, by the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Time on a CPU, summed over all threads.
    pub run_ns: u64,
    /// Time in which threads were runnable and had no CPU, summed over all threads.
    pub delay_ns: u64,
    /// True if a thread waits for a disk, according to the kernel.
    pub waits_for_disk: bool,
    /// True if the process was stopped by a signal or a debugger.
    pub is_stopped: bool,
}

impl Work {
    /// Reads the work of a process, with all its threads. `None` if the kernel does not show the
    /// threads.
    pub fn of_process(pid: u32) -> Option<Work> {
        Work::of_threads(pid, |_| {})
    }

    /// Reads the work of a process. Calls `visit` with the counters of each thread.
    pub fn of_threads(pid: u32, visit: impl FnMut(&TaskStat<'_>)) -> Option<Work> {
        let mut proc = TaskDir::open(&Root::default());
        let threads = proc.of_process(pid, THREADS_MAX).to_vec();
        Work::of(&mut proc, pid, &threads, visit)
    }

    /// Reads the work of a process's main thread alone.
    pub fn of_first_thread(pid: u32) -> Option<Work> {
        let mut proc = TaskDir::open(&Root::default());
        let first = proc.of_process(pid, THREADS_MAX).iter().copied().find(|it| it.tid == pid);
        Work::of(&mut proc, pid, first.as_slice(), |_| {})
    }

    fn of(
        proc: &mut TaskDir,
        pid: u32,
        threads: &[TaskSeen],
        mut visit: impl FnMut(&TaskStat<'_>),
    ) -> Option<Work> {
        let mut work = Work::default();
        for TaskSeen { tid, ran, .. } in threads {
            work.run_ns = work.run_ns.saturating_add(ran.run_ns);
            work.delay_ns = work.delay_ns.saturating_add(ran.delay_ns);
            let stat = proc.read(pid, Some(*tid), "stat");
            let Some(stat) = stat.and_then(TaskStat::parse) else { continue };
            work.waits_for_disk |= stat.state == b'D';
            work.is_stopped |= matches!(stat.state, b'T' | b't');
            visit(&stat);
        }
        (!threads.is_empty()).then_some(work)
    }

    /// Returns the part of the last `passed_ms` in which the process could make progress: it ran,
    /// or waited for no CPU and no disk.
    pub fn had_ms(&self, before: Option<Work>, passed_ms: u64) -> u64 {
        let Work { run_ns, delay_ns, waits_for_disk, is_stopped } = *self;
        let before = before.unwrap_or(*self);
        let part = |now: u64, then: u64| (now.saturating_sub(then) / NS_A_MS).min(passed_ms);
        let is_held = waits_for_disk || is_stopped;
        let waited_ms = if is_held { passed_ms } else { part(delay_ns, before.delay_ns) };
        let ran_ms = part(run_ns, before.run_ns);
        (passed_ms - waited_ms).max(ran_ms).max(passed_ms / LEAST_PART)
    }
}

/// Time in which a process could have performed an awaited action. `look` must be called more often
/// than every five seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance {
    seen: Option<(u64, Option<Work>)>,
    had_ms: u64,
    /// True after the process got its full time again.
    is_given_again: bool,
}

impl Chance {
    /// Starts to count time now.
    pub fn since(now_ms: u64) -> Chance {
        Chance { seen: Some((now_ms, None)), ..Chance::default() }
    }

    /// Returns the milliseconds in which the process could make progress, given its work until now.
    /// If the work is unknown, all time counts. The first call starts to count, unless `since` has
    /// already started.
    pub fn look(&mut self, now_ms: u64, work: impl FnOnce() -> Option<Work>) -> u64 {
        let (then_ms, before) = self.seen.unwrap_or((now_ms, None));
        let passed_ms = now_ms.saturating_sub(then_ms);
        if passed_ms < STEP_MS && self.seen.is_some() {
            return self.had_ms;
        }
        let work = work();
        self.seen = Some((now_ms, work));
        let counted_ms = work.map_or(passed_ms, |work| work.had_ms(before, passed_ms));
        self.had_ms = match passed_ms >= LATE_MS {
            true if !std::mem::replace(&mut self.is_given_again, true) => 0,
            true => self.had_ms.saturating_add(passed_ms.min(LATE_MAX_MS) / LEAST_PART),
            false => self.had_ms.saturating_add(counted_ms),
        };
        self.had_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a process once a second, with this work per second. Returns the second at which ten
    /// seconds have counted.
    fn ten_after(run_ms: u64, delay_ms: u64, work: Work) -> Option<u64> {
        let mut chance = Chance::since(0);
        (1..1_000).find(|second| {
            let (run_ns, delay_ns) = (second * run_ms * NS_A_MS, second * delay_ms * NS_A_MS);
            let work = Work { run_ns, delay_ns, ..work };
            chance.look(second * 1_000, || Some(work)) >= 10_000
        })
    }

    #[test]
    fn process_has_all_time_when_nothing_keeps_it() {
        let free = Work::default();
        assert_eq!(ten_after(0, 0, free), Some(10), "it sleeps");
        assert_eq!(ten_after(1_000, 0, free), Some(10), "it runs");
        assert_eq!(ten_after(3_000, 2_000, free), Some(10), "five threads share three CPUs");
        let mut chance = Chance::since(0);
        let unknown = (1..1_000).find(|second| chance.look(second * 1_000, || None) >= 10_000);
        assert_eq!(unknown, Some(10), "the kernel does not tell");
    }

    #[test]
    fn process_has_more_time_when_host_keeps_it() {
        let free = Work::default();
        // The first second has no earlier check.
        assert_eq!(ten_after(250, 750, free), Some(37), "a quarter of a CPU");
        let held = [
            Work { waits_for_disk: true, ..free },
            Work { is_stopped: true, ..free },
            Work { delay_ns: 1, ..free },
        ];
        for (work, delay_ms) in held.into_iter().zip([0, 0, 1_000]) {
            let after = ten_after(0, delay_ms, work);
            assert!(after.is_some_and(|s| (90..=100).contains(&s)), "not forever: {after:?}");
        }
        let working = Work { waits_for_disk: true, ..free };
        assert_eq!(ten_after(500, 0, working), Some(21), "its other threads run");
    }

    #[test]
    fn process_has_its_time_again_when_the_look_is_late() {
        let mut chance = Chance::since(0);
        assert_eq!(chance.look(4_000, || None), 4_000);
        assert_eq!(chance.look(1_000_000, || None), 0, "the machine was paused");
        assert_eq!(chance.look(1_004_999, || None), 4_999);
        assert_eq!(Chance::default().look(1_000, || None), 0, "the first look");
    }

    #[test]
    fn process_has_its_time_once_more_when_looks_stay_late() {
        let ten_after = |step_ms: [u64; 2]| {
            let (mut chance, mut now_ms) = (Chance::since(0), 0);
            (0..1_000).find(|look| {
                now_ms += step_ms[look % 2];
                chance.look(now_ms, || None) >= 10_000
            })
        };
        assert_eq!(ten_after([6_000, 6_000]), Some(17), "a tenth of each counts");
        assert_eq!(ten_after([6_000, 1_000]), Some(13), "each second one is late");
        assert_eq!(ten_after([3_600_000, 100]), Some(4), "the machine is paused over and over");
    }

    #[test]
    fn looks_that_are_close_are_one() {
        let mut chance = Chance::since(0);
        // The process waits for a CPU for half of each millisecond, which would round to nothing
        // each time.
        let work = |ms: u64| Some(Work { delay_ns: ms * NS_A_MS / 2, ..Work::default() });
        let had_ms = (1..=1_000).map(|ms| chance.look(ms, || work(ms))).last();
        assert_eq!(had_ms, Some(600), "the first look has none before it");
    }

    #[test]
    fn own_work_is_read() {
        let pid = std::process::id();
        assert!(Work::of_process(pid).is_some_and(|work| work.run_ns > 0 && !work.is_stopped));
        assert!(Work::of_first_thread(pid).is_some_and(|work| work.run_ns > 0));
        assert_eq!([Work::of_process(u32::MAX), Work::of_first_thread(u32::MAX)], [None, None]);
    }
}
