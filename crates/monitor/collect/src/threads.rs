//! Threads of a guest's process: run time, wait time, and dispatches.

use std::path::{Path, PathBuf};

use crate::bursts::{Open, Stretches};
use hypervisor::ThreadRan;
use procfs::parse::number;
use procfs::parse::schedstat::{self, Schedstat};
use procfs::parse::task::StatField::{BlockIoTicks, GuestTicks};
use procfs::parse::task::TaskStat;
use procfs::{Buffer, Kept};

/// Maximum number of virtual CPUs. No guest has more.
pub(crate) const VCPUS_MAX: usize = 512;
/// Maximum number of other threads with open files. An emulator has four such threads, and further
/// workers during I/O.
const OTHERS_MAX: usize = 32;
/// Nanoseconds in a clock tick of /proc/PID/stat.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// Fields of /proc/PID/task/TID/stat of a virtual CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) block_io_ns: u64,
    pub(crate) guest_ns: u64,
}

/// A thread with its counters at the last reading, and their growth since the previous reading.
#[derive(Debug, Default)]
struct Thread {
    tid: u64,
    schedstat: Kept,
    stat: Kept,
    ran: Schedstat,
    grown: Schedstat,
    open: Open,
    times: Times,
}

/// Threads that are counted together. An ended thread's counters remain in the sum.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    tasks: PathBuf,
    threads: Vec<Thread>,
    ran: Schedstat,
    times: Times,
    stretches: Stretches,
    stretched_ms: Option<u64>,
}

impl Threads {
    pub(crate) fn none(root: &Path, pid: u32) -> Threads {
        Threads { tasks: root.join(format!("proc/{pid}/task")), ..Threads::default() }
    }

    /// Returns the threads of a process's virtual CPUs. Under emulation one thread may run several
    /// virtual CPUs.
    pub(crate) fn vcpus(root: &Path, pid: u32, tids: &[u32]) -> Threads {
        let mut threads = Threads::none(root, pid);
        for tid in tids.iter().take(VCPUS_MAX).map(|tid| u64::from(*tid)) {
            if threads.threads.iter().all(|thread| thread.tid != tid) {
                threads.add(tid, "stat");
            }
        }
        threads
    }

    fn add(&mut self, tid: u64, stat: &str) {
        let dir = self.tasks.join(tid.to_string());
        let schedstat = Kept::open(&dir.join("schedstat"));
        if schedstat.is_open() {
            let stat = if stat.is_empty() { Kept::default() } else { Kept::open(&dir.join(stat)) };
            self.threads.push(Thread { tid, schedstat, stat, ..Thread::default() });
        }
    }

    /// Searches for new threads, except those counted `elsewhere`. Also opens the file named `stat`
    /// of each thread, unless `stat` is empty.
    pub(crate) fn list(&mut self, elsewhere: &Threads, stat: &str) {
        let Ok(entries) = std::fs::read_dir(&self.tasks) else { return };
        for entry in entries.flatten() {
            if self.threads.len() >= OTHERS_MAX {
                return;
            }
            let tid = number(entry.file_name().as_encoded_bytes());
            let known = |tid: u64| {
                let mut all = self.threads.iter().chain(&elsewhere.threads);
                all.any(|thread| thread.tid == tid)
            };
            if let Some(tid) = tid.filter(|tid| !known(*tid)) {
                self.add(tid, stat);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.threads.len()
    }

    /// Returns the sum of all counters so far, including the last values of ended threads. Returns
    /// `None` if no thread was ever read. Counters in `read` are used as they are, not read again.
    pub(crate) fn ran(&mut self, read: &[ThreadRan], buffer: &mut Buffer) -> Option<Schedstat> {
        let sum = &mut self.ran;
        self.threads.retain_mut(|thread| {
            let known = read.iter().find(|read| u64::from(read.tid) == thread.tid);
            let now = match known {
                Some(known) => known.ran,
                None => {
                    let Some(text) = thread.schedstat.once(buffer) else { return false };
                    let Some(now) = schedstat::parse(text) else { return true };
                    now
                }
            };
            let grow = |sum: &mut u64, last: &mut u64, now: u64| {
                let grown = now.saturating_sub(*last);
                *sum = sum.saturating_add(grown);
                *last = now.max(*last);
                grown
            };
            thread.grown = Schedstat {
                run_ns: grow(&mut sum.run_ns, &mut thread.ran.run_ns, now.run_ns),
                delay_ns: grow(&mut sum.delay_ns, &mut thread.ran.delay_ns, now.delay_ns),
                dispatches: grow(&mut sum.dispatches, &mut thread.ran.dispatches, now.dispatches),
            };
            true
        });
        (!self.threads.is_empty() || *sum != Schedstat::default()).then_some(*sum)
    }

    /// Returns bursts and short idle times from the counters of [`ran`](Threads::ran). Returns
    /// `None` at the first reading, because the time before the first reading is unknown.
    pub(crate) fn stretches(&mut self, now_ms: u64) -> Option<Stretches> {
        let before_ms = self.stretched_ms.replace(now_ms)?;
        let passed_ns = now_ms.saturating_sub(before_ms).saturating_mul(1_000_000);
        for thread in &mut self.threads {
            let Schedstat { run_ns, delay_ns, dispatches } = thread.grown;
            let queued_ns = run_ns.saturating_add(delay_ns);
            self.stretches.take(&mut thread.open, queued_ns, dispatches, passed_ns);
        }
        Some(self.stretches)
    }

    /// Returns the guest time of virtual CPUs, and their waits for block I/O.
    pub(crate) fn times(&mut self, buffer: &mut Buffer) -> Option<Times> {
        let mut seen = false;
        for thread in &mut self.threads {
            let Some(now) = thread.stat.once(buffer).and_then(times) else { continue };
            let last = std::mem::replace(&mut thread.times, now);
            let grown = |now: u64, last: u64| now.saturating_sub(last);
            let (io, guest) = (&mut self.times.block_io_ns, &mut self.times.guest_ns);
            *io = io.saturating_add(grown(now.block_io_ns, last.block_io_ns));
            *guest = guest.saturating_add(grown(now.guest_ns, last.guest_ns));
            seen = true;
        }
        (seen || self.times != Times::default()).then_some(self.times)
    }
}

fn times(text: &[u8]) -> Option<Times> {
    let [block_io, guest] = TaskStat::parse(text)?.numbers([BlockIoTicks, GuestTicks])?;
    let ns = |ticks: u64| ticks.checked_mul(TICK_NS);
    Some(Times { block_io_ns: ns(block_io)?, guest_ns: ns(guest)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn new_threads_are_found_and_ended_threads_stay_counted() {
        let tree = Tree::new();
        let task = |tid: u32, text: &str| tree.file(&format!("proc/7/task/{tid}/schedstat"), text);
        task(7, "100 10 1\n");
        task(8, "200 20 2\n");
        task(9, "300 30 3\n");
        let mut buffer = Buffer::default();
        let mut vcpus = Threads::vcpus(tree.path(), 7, &[8, 77, 8]);
        let mut others = Threads::none(tree.path(), 7);
        assert_eq!(others.ran(&[], &mut buffer), None);
        others.list(&vcpus, "");
        let ran = |run_ns, delay_ns, dispatches| Some(Schedstat { run_ns, delay_ns, dispatches });
        assert_eq!(vcpus.ran(&[], &mut buffer), ran(200, 20, 2));
        assert_eq!(others.ran(&[], &mut buffer), ran(400, 40, 4));
        task(9, "350 30 4\n");
        task(10, "5 5 5\n");
        others.list(&vcpus, "");
        assert_eq!(others.ran(&[], &mut buffer), ran(455, 45, 10));
        // In this tree of plain files, an empty file stands for a thread that has just ended.
        task(9, "");
        assert_eq!(others.ran(&[], &mut buffer), ran(455, 45, 10));
        // A new thread with the same id does not continue the old thread's counters.
        assert_eq!((vcpus.len(), others.len()), (1, 3));
    }

    #[test]
    fn thread_counters_read_by_the_manager_are_not_read_again() {
        let tree = Tree::new();
        let text = |run: u64| tree.file("proc/7/task/8/schedstat", &format!("{run} 0 1\n"));
        let mut buffer = Buffer::default();
        text(100);
        let mut vcpus = Threads::vcpus(tree.path(), 7, &[8]);
        let read = |tid, run_ns| {
            [ThreadRan { tid, ran: Schedstat { run_ns, delay_ns: 0, dispatches: 1 } }]
        };
        let ran = |run_ns| Some(Schedstat { run_ns, delay_ns: 0, dispatches: 1 });
        assert_eq!(vcpus.ran(&read(8, 150), &mut buffer), ran(150), "and not what its file says");
        text(180);
        assert_eq!(vcpus.ran(&read(9, 500), &mut buffer), ran(180), "another's says nothing");
        assert_eq!(vcpus.ran(&read(8, 170), &mut buffer), ran(180), "one that is older");
        assert_eq!(vcpus.ran(&[], &mut buffer), ran(180));
    }

    #[test]
    fn bursts_are_counted_from_the_first_reading_on() {
        let tree = Tree::new();
        let task = |text: &str| tree.file("proc/7/task/8/schedstat", text);
        let mut buffer = Buffer::default();
        task("90000000000 10 2000\n");
        let mut vcpus = Threads::vcpus(tree.path(), 7, &[8]);
        vcpus.ran(&[], &mut buffer);
        assert_eq!(vcpus.stretches(1000), None);
        task("90100000000 100000010 2004\n");
        vcpus.ran(&[], &mut buffer);
        let found = vcpus.stretches(2000).unwrap();
        assert_eq!((found.counts, found.short_rest_ns), ([0, 4, 0, 0], 800_000_000));
    }

    #[test]
    fn guest_time_and_block_io_are_fields_42_and_43() {
        let mut text = "8 (CPU 0/KVM) S".to_owned();
        (4..=52).for_each(|number| text.push_str(&format!(" {number}")));
        let expected = Times { block_io_ns: 42 * TICK_NS, guest_ns: 43 * TICK_NS };
        assert_eq!(times(text.as_bytes()), Some(expected));
        assert_eq!(times(b"8 (x) S 1 2 3"), None);
    }
}
