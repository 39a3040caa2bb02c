//! The memory of guests that are parked is handed to the host's reclaim by a thread, one guest
//! after the other: that takes as long as its memory is large, and the farm has others to serve.
//!
//! ```text
//!   parked ─► Taking ─► queue ─► thread: slice, slice, ... ─► a byte to the poll set: taken
//!   woken before that: the Taking is dropped, and the thread goes on with the next guest
//! ```

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hypervisor::{PageOut, PageOutError, ProcessId, Slice};
use procfs::Buffer;
use vm::Process;

use super::worker::Worker;

/// Memory of one guest that is to be taken. Dropping it leaves what was not taken where it is.
#[derive(Debug)]
pub(super) struct Taking {
    job: Arc<Job>,
    is_queued: bool,
}

#[derive(Debug)]
struct Job {
    process: PageOut,
    slices: Vec<Slice>,
    /// The guest runs again.
    is_left: AtomicBool,
    /// Slices that were handed over.
    taken: AtomicUsize,
    /// It is over; and why the host took no more, if that is so.
    over: OnceLock<Option<String>>,
}

impl Taking {
    pub(super) fn new(process: PageOut, slices: Vec<Slice>) -> Taking {
        let (is_left, taken) = (AtomicBool::new(false), AtomicUsize::new(0));
        let job = Job { process, slices, is_left, taken, over: OnceLock::new() };
        Taking { job: Arc::new(job), is_queued: false }
    }

    /// All memory of a QEMU's own. The error is why the kernel does not take it.
    pub(super) fn of(qemu: &Process) -> Result<Taking, String> {
        let gone = || "its QEMU is gone".to_owned();
        let words = |error| match error {
            PageOutError::Refused(error) => error.to_string(),
            PageOutError::Gone => gone(),
        };
        let process = ProcessId::of(qemu.id()).ok_or_else(gone)?;
        let process = PageOut::open(process).map_err(words)?;
        let slices = process.slices(&mut Buffer::default()).map_err(words)?;
        Ok(Taking::new(process, slices))
    }

    /// Whether it is over; and why the host took no more, if that is so.
    pub(super) fn over(&self) -> Option<&Option<String>> {
        self.job.over.get()
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.job.is_left.store(true, Ordering::Relaxed);
    }
}

impl Job {
    fn run(&self) {
        let mut refused = None;
        for slice in &self.slices {
            if self.is_left.load(Ordering::Relaxed) {
                break;
            }
            match self.process.take(slice) {
                Ok(()) => drop(self.taken.fetch_add(1, Ordering::Relaxed)),
                Err(PageOutError::Gone) => break,
                Err(PageOutError::Refused(error)) => {
                    refused = Some(error.to_string());
                    break;
                }
            }
        }
        // It is set here only.
        let _ = self.over.set(refused);
    }
}

/// The thread, from the first guest on.
#[derive(Debug)]
pub(super) struct Taker(Worker);

impl Default for Taker {
    fn default() -> Taker {
        Taker(Worker::new("taker"))
    }
}

impl Taker {
    /// Takes it, unless it is in the queue already.
    pub(super) fn take(&mut self, taking: &mut Taking) {
        if std::mem::replace(&mut taking.is_queued, true) {
            return;
        }
        let job = Arc::clone(&taking.job);
        if let Err(why) = self.0.send(Box::new(move || job.run())) {
            let _ = taking.job.over.set(Some(why));
        }
    }

    /// What becomes readable when something was taken.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd()
    }

    /// Forgets that it was readable.
    pub(super) fn drain(&self) {
        self.0.drain();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypervisor::ProcessId;

    fn ours(slices: Vec<Slice>) -> Taking {
        let process = ProcessId::of(std::process::id()).unwrap();
        Taking::new(PageOut::open(process).unwrap(), slices)
    }

    fn wait(taker: &Taker) {
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(
            taker.fd().unwrap(),
            rustix::event::PollFlags::IN,
        )];
        let limit = rustix::event::Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut fds, Some(&limit)), Ok(1), "nothing was told");
    }

    #[test]
    fn what_was_taken_is_told_once_and_nothing_is_taken_twice() {
        let mut taker = Taker::default();
        assert!(taker.fd().is_none(), "there is no thread before there is work");
        let mut taking = ours(vec![Slice::default()]);
        assert_eq!(taking.over(), None);
        taker.take(&mut taking);
        taker.take(&mut taking);
        wait(&taker);
        assert_eq!(taking.over(), Some(&None));
        taker.drain();
        // What comes behind it is told when the queue is empty.
        let mut next = ours(Vec::new());
        taker.take(&mut next);
        wait(&taker);
        assert_eq!(next.over(), Some(&None));
        assert_eq!(taking.job.taken.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_guest_that_runs_again_is_left_alone() {
        let left = ours(vec![Slice::default(); 3]);
        let job = Arc::clone(&left.job);
        drop(left);
        job.run();
        assert_eq!((job.taken.load(Ordering::Relaxed), job.over.get()), (0, Some(&None)));
    }
}
