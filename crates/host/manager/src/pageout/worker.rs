//! The thread that pages out guests' memory.
//!
//! ```text
//!   PageOut (owner) ─► Job ─► a queue ─► the thread: process_madvise ─► Report ─► PageOut
//! ```
//!
//! The kernel compresses the memory within the call, which takes milliseconds for each slice of 8
//! MiB, and seconds for a large guest. The manager's loop, which grants memory within milliseconds,
//! must not wait for this call. The thread holds no resource that other code needs. It may end at
//! any moment, because a guest pages in its memory without help.

use super::host::{Compressed, HostReader};
use crate::clock::{Clock, thread_cpu_us};
use base::Bytes;
use hypervisor::{Id, PageOut, PageOutError, ProcessId, ProcessView};
use policy::pageout::{Held, HostSample, Part, Taken, has_failed};
use procfs::Buffer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

/// Capacity of the queue, enough for one measurement of each guest, and a page-out.
const QUEUE: usize = 4096;

/// Number of slices between two checks of the compression. A check reads files.
const RATED_SLICES: usize = 4;
/// Longest pause after a slice of a running guest. Up to this limit the thread pauses for as long
/// as the slice took.
const REST_MAX: Duration = Duration::from_millis(50);

/// A job for the thread: a task on a guest's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub guest: Id,
    pub process: ProcessId,
    pub task: Task,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Page out all memory of the process, or a part of it while the guest runs.
    Take(Option<Part>),
    /// Measure the memory of the process.
    Look,
}

#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub guest: Id,
    pub process: ProcessId,
    pub result: JobResult,
}

#[derive(Clone, Debug)]
pub(crate) enum JobResult {
    /// The memory was paged out, for this CPU time in microseconds.
    Taken { taken: Box<Taken>, cpu_us: u64 },
    /// The process has this resident memory.
    Seen(Held),
    /// The process has ended, or the job was impossible at that time.
    Gone,
    /// The kernel refuses, for this reason.
    Refused(String),
}

#[derive(Debug, Default)]
struct Shared {
    /// Number of jobs sent.
    sent: AtomicU64,
    /// Highest number of a job to be ended early. All earlier jobs end early as well.
    cut: AtomicU64,
    /// Number of slices paged out.
    slices: AtomicU64,
    /// CPU time of the thread, in microseconds.
    cpu_us: AtomicU64,
}

/// A job with its number. Numbers start at 1.
type Numbered = (u64, Job);

/// Handle of page-out's thread. When the handle is dropped, the thread ends after its current
/// slice.
#[derive(Debug, Default)]
pub struct PageOutWorker {
    jobs: Option<SyncSender<Numbered>>,
    reports: Option<Receiver<Report>>,
    shared: Arc<Shared>,
    host: Option<HostReader>,
    /// Reason why page-out is unavailable.
    off: Option<String>,
}

impl PageOutWorker {
    /// Starts the thread, if the kernel lets this process page out memory.
    pub fn start(root: &Path) -> PageOutWorker {
        if let Err(error) = PageOut::probe() {
            return PageOutWorker::none(&format!(
                "the kernel refuses process_madvise ({error}), which needs Linux 5.10, \
                 CAP_SYS_NICE and CAP_SYS_PTRACE"
            ));
        }
        let (jobs, queue) = sync_channel(QUEUE);
        let (answers, reports) = channel();
        let shared = Arc::new(Shared::default());
        let host = Some(HostReader::open(root));
        let (root, ours) = (root.to_owned(), Arc::clone(&shared));
        let work = move || {
            let buffer = Buffer::default();
            let mut work = Work { root, shared: ours, buffer, clock: Clock::start() };
            work.run(&queue, &answers);
        };
        match std::thread::Builder::new().name("page-out".to_owned()).spawn(work) {
            Ok(_) => {
                PageOutWorker { jobs: Some(jobs), reports: Some(reports), shared, host, off: None }
            }
            Err(error) => PageOutWorker::none(&format!("its thread cannot be started ({error})")),
        }
    }

    /// Creates a value without a thread, with the reason.
    pub fn none(why: &str) -> PageOutWorker {
        let (jobs, reports, host, shared) = (None, None, None, Arc::default());
        PageOutWorker { jobs, reports, host, shared, off: Some(why.to_owned()) }
    }

    /// Returns the reason if page-out is unavailable.
    pub(crate) fn off(&self) -> Option<&str> {
        self.off.as_deref()
    }

    pub(crate) fn read_host(&mut self, lack: Bytes) -> HostSample {
        self.host.as_mut().map_or(HostSample::default(), |host| host.read(lack))
    }

    /// Returns the CPU time of page-out so far, in microseconds.
    pub(crate) fn cpu_us(&self) -> u64 {
        self.shared.cpu_us.load(Ordering::Relaxed)
    }

    /// Returns the number of slices paged out so far. If the number does not rise during a
    /// page-out, the kernel hangs.
    pub(crate) fn slices(&self) -> u64 {
        self.shared.slices.load(Ordering::Relaxed)
    }

    /// Sends a job to the thread. Returns false if the thread cannot accept it.
    pub(crate) fn send(&self, job: Job) -> bool {
        let number = self.shared.sent.fetch_add(1, Ordering::Relaxed) + 1;
        self.jobs.as_ref().is_some_and(|jobs| jobs.try_send((number, job)).is_ok())
    }

    /// Ends all requested page-outs after the current slice.
    pub(crate) fn cut(&self) {
        self.shared.cut.store(self.shared.sent.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the reports since the last call.
    pub(crate) fn reports(&mut self) -> Vec<Report> {
        let Some(reports) = &self.reports else { return Vec::new() };
        let mut all = Vec::new();
        loop {
            match reports.try_recv() {
                Ok(report) => all.push(report),
                Err(TryRecvError::Empty) => return all,
                Err(TryRecvError::Disconnected) => {
                    self.off = Some("its thread has ended".to_owned());
                    (self.jobs, self.reports) = (None, None);
                    return all;
                }
            }
        }
    }
}

impl Drop for PageOutWorker {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Result of paging out slice after slice.
enum End {
    /// All memory was paged out.
    Whole,
    /// The page-out was ended early.
    Cut,
    /// One part was paged out, and the next part begins at this address.
    Part { next: u64 },
}

struct Work {
    root: PathBuf,
    shared: Arc<Shared>,
    buffer: Buffer,
    clock: Clock,
}

impl Work {
    fn run(&mut self, jobs: &Receiver<Numbered>, reports: &Sender<Report>) {
        while let Ok((number, job)) = jobs.recv() {
            let Job { guest, process, task } = job;
            let result = match task {
                Task::Take(part) => self.take(process, part, number),
                Task::Look => held(process).map_or(JobResult::Gone, JobResult::Seen),
            };
            self.shared.cpu_us.store(thread_cpu_us(), Ordering::Relaxed);
            if reports.send(Report { guest, process, result }).is_err() {
                return;
            }
        }
    }

    fn take(&mut self, process: ProcessId, part: Option<Part>, number: u64) -> JobResult {
        let (start_us, start_cpu_us) = (self.clock.us(), thread_cpu_us());
        let before = match held(process) {
            Some(before) => before,
            None if process.is_alive() => {
                return JobResult::Refused("its memory map cannot be read".to_owned());
            }
            None => return JobResult::Gone,
        };
        let stored_before = Compressed::read(&self.root, &mut self.buffer);
        let part = part.map(|part| (part, before));
        let end = match self.hand_over(process, part, number, stored_before) {
            Ok(end) => end,
            Err(PageOutError::Gone) => return JobResult::Gone,
            Err(error) => return JobResult::Refused(error.to_string()),
        };
        let stored = self.stored_since(stored_before);
        let Some(after) = held(process) else { return JobResult::Gone };
        let took_ms = self.clock.us().saturating_sub(start_us).div_ceil(1000);
        let (is_cut, next) = match end {
            End::Whole => (false, None),
            End::Cut => (true, None),
            End::Part { next } => (false, Some(next)),
        };
        let taken = Box::new(Taken { before, after, stored, took_ms, is_cut, next });
        JobResult::Taken { taken, cpu_us: thread_cpu_us().saturating_sub(start_cpu_us) }
    }

    /// Pages out slice after slice. Page-out ends early if it is cancelled, or if the memory stored
    /// so far compresses badly. The page-out of a part also ends when the guest's memory has shrunk
    /// by the part's limit since `Held` was measured.
    fn hand_over(
        &mut self,
        process: ProcessId,
        part: Option<(Part, Held)>,
        number: u64,
        stored_before: Option<Compressed>,
    ) -> Result<End, PageOutError> {
        let mut slices = PageOut::take_from(process, part.map_or(0, |(part, _)| part.from))?;
        let all = slices.len();
        while slices.len() > 0 {
            if self.shared.cut.load(Ordering::Relaxed) >= number {
                return Ok(End::Cut);
            }
            let start_us = self.clock.us();
            let Some(next) = slices.next().transpose()? else { break };
            self.shared.slices.fetch_add(1, Ordering::Relaxed);
            if let Some((part, before)) = part {
                let now = held(process).ok_or(PageOutError::Gone)?;
                if before.own.less(now.own) >= part.most && slices.len() > 0 {
                    return Ok(End::Part { next });
                }
                // The guest runs during the page-out, and needs a free core.
                let took_us = self.clock.us().saturating_sub(start_us);
                std::thread::sleep(Duration::from_micros(took_us).min(REST_MAX));
            }
            if !(all - slices.len()).is_multiple_of(RATED_SLICES) {
                continue;
            }
            self.shared.cpu_us.store(thread_cpu_us(), Ordering::Relaxed);
            let so_far = self.stored_since(stored_before);
            if so_far.is_some_and(|(stored, takes)| has_failed(stored, takes)) {
                return Ok(End::Cut);
            }
        }
        Ok(End::Whole)
    }

    fn stored_since(&mut self, before: Option<Compressed>) -> Option<(Bytes, Bytes)> {
        let (before, now) = (before?, Compressed::read(&self.root, &mut self.buffer)?);
        Some((now.stored.less(before.stored), now.takes.less(before.takes)))
    }
}

fn held(process: ProcessId) -> Option<Held> {
    let apart = ProcessView::open(process)?.apart()?;
    Some(Held { own: apart.anonymous.plus(apart.shmem), swapped: apart.swapped? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Bytes;

    /// The test pages out its own process. Without swap the memory stays, and with swap the memory
    /// is faulted in again.
    #[test]
    fn part_ends_when_enough_is_gained_and_next_part_follows() {
        if let Err(why) = PageOut::probe() {
            return base::skipped!("the kernel refuses process_madvise: {why}");
        }
        let root = PathBuf::from("/");
        let (shared, buffer) = (Arc::default(), Buffer::default());
        let mut work = Work { root, shared, buffer, clock: Clock::start() };
        let much = vec![1_u8; 64 << 20];
        let process = ProcessId::of(std::process::id()).unwrap();
        let before = held(process).unwrap();
        let mut from = |from: u64, most: Bytes| {
            let part = Some((Part { from, most }, before));
            work.hand_over(process, part, 1, None).unwrap()
        };
        // With a limit of 0 bytes a part is one slice.
        let End::Part { next } = from(0, Bytes::ZERO) else { panic!("there is only one slice") };
        let End::Part { next: behind } = from(next, Bytes::ZERO) else { panic!("only two") };
        assert!(0 < next && next < behind, "{next:x} {behind:x}");
        assert!(matches!(from(u64::MAX, Bytes::ZERO), End::Whole), "no memory is left");
        assert!(matches!(from(0, Bytes(u64::MAX)), End::Whole), "the limit is never reached");
        work.shared.cut.store(1, Ordering::Relaxed);
        let part = Some((Part { from: 0, most: Bytes::ZERO }, before));
        assert!(matches!(work.hand_over(process, part, 1, None).unwrap(), End::Cut));
        assert_eq!(much.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 64 << 20);
    }
}
