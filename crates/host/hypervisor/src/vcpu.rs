//! CPU usage of a guest's vCPUs, read on the host without waking the guest.

use std::path::Path;

use procfs::Kept;
use procfs::parse::schedstat::{self, Schedstat};

/// Maximum number of vCPU threads that are watched.
const VCPUS_MAX: usize = 512;
const TEXT_MAX: usize = 64;

/// CPU shares over a window of time, as sums over all vCPUs in percent of one CPU. A guest with two
/// vCPUs can have 200 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Time on a host CPU. Under emulation this is the emulator's time.
    pub cpu_percent: f64,
    /// Time in which a thread was runnable while the host ran another task. This is the guest's
    /// steal time, measured on the host.
    pub steal_percent: f64,
}

/// Counters of one thread since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadRan {
    pub tid: u32,
    /// Counters of the thread.
    pub ran: Schedstat,
}

/// The vCPU threads of one guest.
#[derive(Debug, Default)]
pub struct Vcpus {
    threads: Vec<(u32, Kept)>,
    last: Option<(u64, Schedstat)>,
    /// Counters of the readable threads at the last call of `usage`.
    read: Vec<ThreadRan>,
}

impl Vcpus {
    /// Watches these threads of a process. One thread may run several vCPUs. A thread that has
    /// ended is left out.
    pub fn new(pid: u32, tids: &[u32]) -> Vcpus {
        Vcpus::new_under(Path::new("/"), pid, tids)
    }

    /// Does the same as [`Vcpus::new`], below another root than `/`.
    pub fn new_under(root: &Path, pid: u32, tids: &[u32]) -> Vcpus {
        let path = |tid: &u32| root.join(format!("proc/{pid}/task/{tid}/schedstat"));
        let mut threads: Vec<(u32, Kept)> = Vec::new();
        for tid in tids.iter().take(VCPUS_MAX) {
            if threads.iter().all(|(known, _)| known != tid) {
                threads.push((*tid, Kept::open(&path(tid))));
            }
        }
        threads.retain(|(_, file)| file.is_open());
        Vcpus { threads, ..Vcpus::default() }
    }

    /// Returns the usage since the last call; `None` at the first call. It is also `None` if no
    /// thread can be read, because such a guest may be busy.
    pub fn usage(&mut self, now_ms: u64) -> Option<Usage> {
        self.read.clear();
        self.read.extend(each(&self.threads));
        let Some(total) = sum(self.read.iter().copied()) else {
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

    /// Returns the total run time of all threads.
    pub fn run_ns(&self) -> Option<u64> {
        sum(each(&self.threads)).map(|total| total.run_ns)
    }

    /// Returns each thread's counters at the last call of [`usage`](Vcpus::usage), and the time of
    /// that call. Reading is slow, so other callers share the result.
    pub fn read(&self) -> Option<(u64, &[ThreadRan])> {
        self.last.map(|(at_ms, _)| (at_ms, self.read.as_slice()))
    }
}

/// Reads each thread's counters. An unreadable thread is left out.
fn each(threads: &[(u32, Kept)]) -> impl Iterator<Item = ThreadRan> {
    threads.iter().filter_map(|(tid, file)| {
        let ran = schedstat::parse(file.start(&mut [0; TEXT_MAX])?)?;
        Some(ThreadRan { tid: *tid, ran })
    })
}

/// Returns the sum over all threads; `None` without threads.
fn sum(all: impl IntoIterator<Item = ThreadRan>) -> Option<Schedstat> {
    all.into_iter().map(|one| one.ran).reduce(|sum, ran| Schedstat {
        run_ns: sum.run_ns.saturating_add(ran.run_ns),
        delay_ns: sum.delay_ns.saturating_add(ran.delay_ns),
        dispatches: sum.dispatches.saturating_add(ran.dispatches),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::Tree;

    #[test]
    fn threads_are_added_up_and_those_that_are_gone_left_out() {
        let tree = Tree::create();
        tree.file("proc/7/task/8/schedstat", "1000000 0 1\n");
        tree.file("proc/7/task/9/schedstat", "0 0 1\n");
        // A thread of two vCPUs is counted once.
        let mut vcpus = Vcpus::new_under(tree.path(), 7, &[8, 8, 9, 10]);
        assert_eq!(vcpus.read(), None);
        assert_eq!(vcpus.usage(0), None);
        tree.file("proc/7/task/8/schedstat", "501000000 0 1\n");
        tree.file("proc/7/task/9/schedstat", "250000000 100000000 1\n");
        let usage = Usage { cpu_percent: 75.0, steal_percent: 10.0 };
        assert_eq!(vcpus.usage(1000), Some(usage));
        let ran = |tid, run_ns, delay_ns| ThreadRan {
            tid,
            ran: Schedstat { run_ns, delay_ns, dispatches: 1 },
        };
        let both = [ran(8, 501_000_000, 0), ran(9, 250_000_000, 100_000_000)];
        assert_eq!(vcpus.read(), Some((1000, both.as_slice())));
    }

    #[test]
    fn usage_is_what_grew_over_the_window() {
        let tree = Tree::create();
        tree.file("proc/7/task/8/schedstat", "1000000 0 1\n");
        let mut vcpus = Vcpus::new_under(tree.path(), 7, &[8]);
        assert_eq!(vcpus.usage(1000), None);
        assert_eq!(vcpus.usage(1000), None, "no time has passed");
        assert_eq!(vcpus.usage(2000), Some(Usage::default()));
    }

    #[test]
    fn threads_that_cannot_be_read_did_not_use_nothing() {
        let tree = Tree::create();
        let mut vcpus = Vcpus::new_under(tree.path(), 7, &[8, 9]);
        assert_eq!([vcpus.usage(1000), vcpus.usage(2000)], [None, None]);
    }
}
