//! What a guest's virtual CPUs cost, as the host sees it: without waking anybody.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// More virtual CPUs than this are not watched one by one.
const VCPUS_MAX: usize = 512;

/// Run time and run delay of all virtual CPUs together, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Total {
    run_ns: u64,
    delay_ns: u64,
}

/// Shares of a window of time, in percent of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Time on a host CPU. Under emulation that is the emulator's.
    pub cpu_percent: f64,
    /// Time ready to run while the host ran something else: steal, seen from outside.
    pub steal_percent: f64,
}

/// The virtual CPU threads of one guest.
#[derive(Debug, Default)]
pub struct Vcpus {
    threads: Vec<File>,
    last: Option<(u64, Total)>,
}

impl Vcpus {
    /// Watches these threads of a process. A thread that is gone is left out.
    pub fn new(pid: u32, tids: &[u32]) -> Vcpus {
        Vcpus::new_under(Path::new("/"), pid, tids)
    }

    /// The same, below another root than `/`.
    pub fn new_under(root: &Path, pid: u32, tids: &[u32]) -> Vcpus {
        let path = |tid: &u32| root.join(format!("proc/{pid}/task/{tid}/schedstat"));
        let open = |tid: &u32| File::open(path(tid)).ok();
        Vcpus { threads: tids.iter().take(VCPUS_MAX).filter_map(open).collect(), last: None }
    }

    /// What was used since the last call; `None` at the first, and where no thread can be read:
    /// of a guest that is not seen nobody knows that it sleeps.
    pub fn usage(&mut self, now_ms: u64) -> Option<Usage> {
        let Some(total) = self.total() else {
            self.last = None;
            return None;
        };
        let before = self.last.replace((now_ms, total));
        let (then_ms, then) = before?;
        let window_ns = now_ms.checked_sub(then_ms).filter(|ms| *ms > 0)? as f64 * 1e6;
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / window_ns * 100.0;
        Some(Usage {
            cpu_percent: share(total.run_ns, then.run_ns),
            steal_percent: share(total.delay_ns, then.delay_ns),
        })
    }

    /// What they have run in all.
    pub fn run_ns(&self) -> Option<u64> {
        self.total().map(|total| total.run_ns)
    }

    fn total(&self) -> Option<Total> {
        let mut total = Total::default();
        let mut is_seen = false;
        for thread in &self.threads {
            let mut text = [0; 64];
            let Ok(count) = thread.read_at(&mut text, 0) else { continue };
            if let Some([run, delay]) = parse_schedstat(&text[..count]) {
                is_seen = true;
                total.run_ns = total.run_ns.saturating_add(run);
                total.delay_ns = total.delay_ns.saturating_add(delay);
            }
        }
        is_seen.then_some(total)
    }
}

/// The first two fields of a thread's schedstat: time on a CPU and time waiting for one.
pub fn parse_schedstat(text: &[u8]) -> Option<[u64; 2]> {
    let mut fields = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn a_schedstat_has_run_time_and_delay() {
        assert_eq!(parse_schedstat(b"123456 789 42\n"), Some([123_456, 789]));
        assert_eq!(parse_schedstat(b"1"), None);
        assert_eq!(parse_schedstat(b"\xff\xff"), None);
        assert_eq!(parse_schedstat(b"-1 2 3"), None);
    }

    #[test]
    fn threads_are_added_up_and_those_that_are_gone_left_out() {
        let tree = Tree::new();
        tree.file("proc/7/task/8/schedstat", "1000000 0 1\n");
        tree.file("proc/7/task/9/schedstat", "0 0 1\n");
        let mut vcpus = Vcpus::new_under(tree.path(), 7, &[8, 9, 10]);
        assert_eq!(vcpus.usage(0), None);
        tree.file("proc/7/task/8/schedstat", "501000000 0 1\n");
        tree.file("proc/7/task/9/schedstat", "250000000 100000000 1\n");
        let usage = Usage { cpu_percent: 75.0, steal_percent: 10.0 };
        assert_eq!(vcpus.usage(1000), Some(usage));
    }

    #[test]
    fn usage_is_what_grew_over_the_window() {
        let tree = Tree::new();
        tree.file("proc/7/task/8/schedstat", "1000000 0 1\n");
        let mut vcpus = Vcpus::new_under(tree.path(), 7, &[8]);
        assert_eq!(vcpus.usage(1000), None);
        assert_eq!(vcpus.usage(1000), None, "no time has passed");
        assert_eq!(vcpus.usage(2000), Some(Usage::default()));
    }

    #[test]
    fn threads_that_cannot_be_read_did_not_use_nothing() {
        let tree = Tree::new();
        let mut vcpus = Vcpus::new_under(tree.path(), 7, &[8, 9]);
        assert_eq!([vcpus.usage(1000), vcpus.usage(2000)], [None, None]);
    }
}
