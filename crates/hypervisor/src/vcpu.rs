//! What a guest's virtual CPUs cost, as the host sees it: without waking anybody.

use std::path::Path;

use procfs::Kept;
use procfs::parse::schedstat::{self, Schedstat};

/// More virtual CPUs than this are not watched one by one.
const VCPUS_MAX: usize = 512;
/// Room for three numbers.
const TEXT_MAX: usize = 64;

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
    threads: Vec<Kept>,
    last: Option<(u64, Schedstat)>,
}

impl Vcpus {
    /// Watches these threads of a process. A thread that is gone is left out.
    pub fn new(pid: u32, tids: &[u32]) -> Vcpus {
        Vcpus::new_under(Path::new("/"), pid, tids)
    }

    /// The same, below another root than `/`.
    pub fn new_under(root: &Path, pid: u32, tids: &[u32]) -> Vcpus {
        let path = |tid: &u32| root.join(format!("proc/{pid}/task/{tid}/schedstat"));
        let all = tids.iter().take(VCPUS_MAX).map(|tid| Kept::open(&path(tid)));
        Vcpus { threads: all.filter(Kept::is_open).collect(), last: None }
    }

    /// What was used since the last call; `None` at the first, and where no thread can be read:
    /// a guest that is not seen is not known to sleep.
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

    /// Of all virtual CPUs together.
    fn total(&self) -> Option<Schedstat> {
        let mut total = None;
        for thread in &self.threads {
            if let Some(ran) = thread.start(&mut [0; TEXT_MAX]).and_then(schedstat::parse) {
                let sum: &mut Schedstat = total.get_or_insert_default();
                sum.run_ns = sum.run_ns.saturating_add(ran.run_ns);
                sum.delay_ns = sum.delay_ns.saturating_add(ran.delay_ns);
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

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
