//! Stages of a guest on its way to a park and back. The requests to QEMU are in `park`.

use std::cell::OnceCell;

use procfs::Chance;
use qmp::Ticket;
use vm::PortSockets;

use super::fault::Fault;
use super::park_clock::{ParkClock, ParkRule};
use super::worker::Job;

#[derive(Debug, Default)]
pub(super) struct Parking {
    pub(super) stage: Stage,
    /// Request that QEMU has not answered yet, and the time in which QEMU could run since the
    /// request.
    pub(super) waits: Option<(Ticket, Chance)>,
    pub(super) clock: ParkClock,
    /// Reason why the guest was not paged out, or not saved, at its last park.
    pub(super) refused: Option<Fault>,
}

#[derive(Debug, Default)]
pub(super) enum Stage {
    #[default]
    Awake,
    /// QEMU was asked to stop the vCPUs. `is_wanted` is set if a wake-up was requested since then.
    Stopping { asked: Ticket, is_wanted: bool },
    /// The park file is being written: QEMU writes the devices, then a thread writes the file.
    Saving { by: Saver, is_wanted: bool },
    /// QEMU is stopped.
    Parked {
        sockets: PortSockets,
        since_ms: u64,
        /// Job that pages out the guest's memory, until the job is over. The cell is empty until a
        /// thread gets the job.
        rest: Option<OnceCell<Job<()>>>,
        /// Set while a client wants the guest and the guest waits for its turn to be woken.
        is_wanted: bool,
    },
    /// QEMU was asked to let the vCPUs run.
    Waking { asked: Ticket },
}

/// Outcome of saving a guest.
#[derive(Debug)]
pub(super) enum SaveNews {
    Saved,
    /// The guest is wanted and continues in its existing QEMU.
    Wanted,
    Failed(Fault),
}

/// Writer of a guest's park file.
#[derive(Debug)]
pub(super) enum Saver {
    /// QEMU writes the state of its devices.
    Qemu(Ticket),
    /// QEMU has written the state of its devices and is stopped. No thread has the job yet.
    Nobody(Vec<u8>),
    /// The thread writes the file, and returns the file's size.
    Thread(Job<u64>),
}

impl Stage {
    /// Returns the request that QEMU has not answered yet.
    pub(super) fn asked(&self) -> Option<Ticket> {
        match self {
            Stage::Stopping { asked, .. }
            | Stage::Saving { by: Saver::Qemu(asked), .. }
            | Stage::Waking { asked } => Some(*asked),
            Stage::Awake | Stage::Saving { .. } | Stage::Parked { .. } => None,
        }
    }
}

impl Parking {
    /// Returns true if QEMU is stopped and answers no request.
    pub(super) fn is_stopped(&self) -> bool {
        match &self.stage {
            Stage::Parked { .. } => true,
            Stage::Saving { by, .. } => !matches!(by, Saver::Qemu(_)),
            Stage::Awake | Stage::Stopping { .. } | Stage::Waking { .. } => false,
        }
    }

    /// Returns true if the guest is parked in its QEMU.
    pub(super) fn is_parked(&self) -> bool {
        matches!(self.stage, Stage::Parked { .. })
    }

    /// Returns true if a client wants the guest and the guest waits for its turn to be woken.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.stage, Stage::Parked { is_wanted: true, .. })
    }

    /// Returns true if the guest is being stopped or written to its file.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.stage, Stage::Stopping { .. } | Stage::Saving { .. })
    }

    /// Returns true if the guest is parked and its page-out is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Parked { rest: None, .. })
    }

    /// Returns true if the guest is parked and its page-out is not over.
    pub(super) fn has_rest(&self) -> bool {
        matches!(self.stage, Stage::Parked { rest: Some(_), .. })
    }

    /// Returns true if the guest is parked and its memory is paged out.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.stage, Stage::Parked { rest: None, .. }) && self.refused.is_none()
    }

    /// Returns the word for the stage, unless the guest is awake or only being stopped.
    pub(super) fn word(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Awake | Stage::Stopping { .. } => None,
            Stage::Saving { .. } | Stage::Parked { rest: Some(_), .. } => Some("parking"),
            Stage::Parked { rest: None, .. } => Some("parked"),
            Stage::Waking { .. } => Some("waking"),
        }
    }

    /// Returns true if the guest runs and no stop was requested.
    pub(super) fn is_awake(&self) -> bool {
        matches!(self.stage, Stage::Awake)
    }

    /// Lets the thread save a guest after QEMU has written the state of the devices. Returns the
    /// outcome when the job is over. The job starts when the thread is free. If the guest is wanted
    /// earlier, the job never starts.
    pub(super) fn save(
        &mut self,
        is_wanted: bool,
        is_free: bool,
        begin: impl FnOnce(Vec<u8>) -> Job<u64>,
    ) -> Option<SaveNews> {
        let Stage::Saving { by, is_wanted: is_wanted_too } = &mut self.stage else { return None };
        let is_wanted = is_wanted || *is_wanted_too;
        match by {
            Saver::Nobody(_) if is_wanted => Some(SaveNews::Wanted),
            Saver::Nobody(devices) if is_free => {
                *by = Saver::Thread(begin(std::mem::take(devices)));
                None
            }
            Saver::Qemu(_) | Saver::Nobody(_) => None,
            Saver::Thread(job) => Some(match job.done()? {
                Err(why) => SaveNews::Failed(why),
                Ok(_) if is_wanted => SaveNews::Wanted,
                Ok(_) => SaveNews::Saved,
            }),
        }
    }

    /// Lets a thread page out a parked guest. Returns true once, when the page-out is over.
    pub(super) fn page_out(&mut self, begin: impl FnOnce() -> Job<()>) -> bool {
        let Stage::Parked { rest, .. } = &mut self.stage else { return false };
        let Some(job) = rest else { return false };
        let Some(done) = job.get_or_init(begin).done() else { return false };
        self.refused = done.err();
        *rest = None;
        true
    }

    pub(super) fn refused(&self) -> Option<&Fault> {
        self.refused.as_ref()
    }

    /// Returns true if the guest has been parked for the longest time that the rule allows.
    pub(super) fn was_long_enough(&self, rule: ParkRule, now_ms: u64) -> bool {
        let Stage::Parked { since_ms, .. } = self.stage else { return false };
        rule.is_over(now_ms.saturating_sub(since_ms))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::worker::Worker;
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    /// Parks a guest with this outcome of its page-out, and counts the jobs.
    fn page_out(outcome: Result<(), Fault>) -> (Parking, usize) {
        let (sockets, rest) = (PortSockets::default(), Some(OnceCell::new()));
        let stage = Stage::Parked { sockets, since_ms: 0, rest, is_wanted: false };
        let mut parking = Parking { stage, ..Parking::default() };
        assert_eq!((parking.word(), parking.is_out()), (Some("parking"), false));
        let (mut worker, mut jobs) = (Worker::new("test"), 0);
        assert!(worker.fd().is_none(), "there is no thread before there is work");
        let mut turn = |worker: &mut Worker| {
            parking.page_out(|| {
                jobs += 1;
                let outcome = outcome.clone();
                Job::begin(worker, move |_: &AtomicBool| outcome)
            })
        };
        while !turn(&mut worker) {
            let mut news = [PollFd::from_borrowed_fd(worker.fd().unwrap(), PollFlags::IN)];
            let limit = Timespec { tv_sec: 30, tv_nsec: 0 };
            assert_eq!(poll(&mut news, Some(&limit)), Ok(1), "no news of the job");
        }
        assert!(!turn(&mut worker), "it is over only once");
        (parking, jobs)
    }

    #[test]
    fn guest_is_parking_until_one_job_has_paged_it_out() {
        let (parking, jobs) = page_out(Ok(()));
        assert_eq!((parking.word(), parking.is_out(), jobs), (Some("parked"), true, 1));
        assert!(parking.refused().is_none());
    }

    #[test]
    fn guest_is_parked_with_reason_when_host_refuses() {
        let (parking, jobs) = page_out(Err(Fault::NoQemu));
        assert_eq!((parking.word(), parking.is_out(), jobs), (Some("parked"), false, 1));
        assert!(matches!(parking.refused(), Some(Fault::NoQemu)));
    }
}
