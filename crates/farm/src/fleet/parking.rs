//! The stages of a guest on its way to sleep and back; its QEMU is asked elsewhere.

use std::cell::OnceCell;

use procfs::Chance;
use qmp::Ticket;
use vm::PortSockets;

use super::park_clock::{ParkClock, ParkRule};
use super::worker::Job;

/// The stage of a guest on its way to sleep and back.
#[derive(Debug, Default)]
pub(super) struct Parking {
    pub(super) stage: Stage,
    /// The question that QEMU has not answered yet, and the time that it has had for it.
    pub(super) waits: Option<(Ticket, Chance)>,
    pub(super) clock: ParkClock,
    /// The reason for which the host did not take its memory when it was parked last.
    pub(super) refused: Option<String>,
}

#[derive(Debug, Default)]
pub(super) enum Stage {
    #[default]
    Awake,
    /// QEMU was asked to stop the virtual CPUs; somebody may have come since who wants them.
    Stopping { asked: Ticket, is_wanted: bool },
    /// It is written to its file: by QEMU, its devices first, and then by a thread.
    Saving { by: Saver, is_wanted: bool },
    /// QEMU is stopped.
    Parked {
        sockets: PortSockets,
        since_ms: u64,
        /// The job that pages its memory out, from when a thread has it until it is over.
        rest: Option<OnceCell<Job<()>>>,
        /// A client wants it, and it waits for its turn to be woken.
        is_wanted: bool,
    },
    /// QEMU was asked to let the virtual CPUs run.
    Waking { asked: Ticket },
}

/// The outcome of saving a guest.
#[derive(Debug)]
pub(super) enum SaveNews {
    Saved,
    /// Somebody wants it: it goes on in the QEMU that is there.
    Wanted,
    Failed(String),
}

/// The writer of a guest's file.
#[derive(Debug)]
pub(super) enum Saver {
    /// QEMU was asked for its devices.
    Qemu(Ticket),
    /// QEMU has written them, and is stopped.
    Nobody(Vec<u8>),
    /// The thread, which gives the size of the file.
    Thread(Job<u64>),
}

impl Stage {
    /// The question that QEMU has not answered.
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
    /// Returns whether its QEMU answers nobody.
    pub(super) fn is_stopped(&self) -> bool {
        match &self.stage {
            Stage::Parked { .. } => true,
            Stage::Saving { by, .. } => !matches!(by, Saver::Qemu(_)),
            Stage::Awake | Stage::Stopping { .. } | Stage::Waking { .. } => false,
        }
    }

    /// Returns whether its virtual CPUs stand still, in this QEMU.
    pub(super) fn is_parked(&self) -> bool {
        matches!(self.stage, Stage::Parked { .. })
    }

    /// Returns whether a client wants it, and it waits for its turn to be woken.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.stage, Stage::Parked { is_wanted: true, .. })
    }

    /// Returns whether it is about to be stopped, or to be written to its file.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.stage, Stage::Stopping { .. } | Stage::Saving { .. })
    }

    /// Returns whether it is parked, and nothing of it is still to be paged out.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Parked { rest: None, .. })
    }

    /// Returns whether there is memory to be paged out.
    pub(super) fn has_rest(&self) -> bool {
        matches!(self.stage, Stage::Parked { rest: Some(_), .. })
    }

    /// Returns whether nothing of it is left in memory that could be elsewhere.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.stage, Stage::Parked { rest: None, .. }) && self.refused.is_none()
    }

    /// One word for it, if its guest is not as usual.
    pub(super) fn word(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Awake | Stage::Stopping { .. } => None,
            Stage::Saving { .. } | Stage::Parked { rest: Some(_), .. } => Some("parking"),
            Stage::Parked { rest: None, .. } => Some("parked"),
            Stage::Waking { .. } => Some("waking"),
        }
    }

    /// Returns whether it runs, and nobody has asked that it stops.
    pub(super) fn is_awake(&self) -> bool {
        matches!(self.stage, Stage::Awake)
    }

    /// Has the thread save a guest whose devices are written. Returns the outcome when it is over.
    /// One that nobody has begun with waits until the thread is free, and is not saved at all if
    /// it is wanted before.
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

    /// Has a thread page out a guest that is parked. True if that is done now.
    pub(super) fn page_out(&mut self, begin: impl FnOnce() -> Job<()>) -> bool {
        let Stage::Parked { rest, .. } = &mut self.stage else { return false };
        let Some(job) = rest else { return false };
        let Some(done) = job.get_or_init(begin).done() else { return false };
        self.refused = done.err();
        *rest = None;
        true
    }

    /// The reason for which the host did not take its memory, if that was so.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Returns whether it was parked for as long as it may be.
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

    /// Parks a guest whose page-out ends so, and counts the jobs.
    fn page_out(outcome: Result<(), String>) -> (Parking, usize) {
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
            assert_eq!(poll(&mut news, Some(&limit)), Ok(1), "nothing was told");
        }
        assert!(!turn(&mut worker), "it is over only once");
        (parking, jobs)
    }

    #[test]
    fn guest_is_parking_until_one_job_has_paged_it_out() {
        let (parking, jobs) = page_out(Ok(()));
        assert_eq!((parking.word(), parking.is_out(), jobs), (Some("parked"), true, 1));
        assert_eq!(parking.refused(), None);
    }

    #[test]
    fn guest_is_parked_with_reason_when_host_refuses() {
        let (parking, jobs) = page_out(Err("no".to_owned()));
        assert_eq!((parking.word(), parking.is_out(), jobs), (Some("parked"), false, 1));
        assert_eq!(parking.refused(), Some("no"));
    }
}
