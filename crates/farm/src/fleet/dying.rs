//! A QEMU that was killed and is not gone yet.
//!
//! One with much memory takes its time to give that back, and one that waits for a disk goes when
//! the disk answers. Its end is a descriptor in the fleet's poll: nobody waits for it, and what is
//! to come after it comes then.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;

use procfs::Shortage;
use rustix::process::Signal;
use vm::Process;

/// The signal by which the kernel, and a farm, kill.
const KILL: i32 = Signal::KILL.as_raw();

/// What comes when it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: why it ended has been told.
    Nothing,
    /// The guest has ended, with its QEMU's last words.
    End,
    /// The guest starts again. Until now its QEMU had its disk.
    Start,
}

/// A QEMU that was killed.
#[derive(Debug)]
pub(super) struct Dying {
    process: Process,
    /// Readable at its end. Without one, it is looked at in each tick.
    end: Option<OwnedFd>,
    next: Next,
    /// The reason for which the kernel had killed it before, if it had.
    shortage: Option<Shortage>,
}

impl Dying {
    /// Kills it.
    pub(super) fn kill(mut process: Process, next: Next) -> Dying {
        process.strike();
        Dying { end: process.descriptor().ok(), process, next, shortage: None }
    }

    /// The same of one that the kernel may have killed before, for want of memory.
    pub(super) fn lacking(self, shortage: Option<Shortage>) -> Dying {
        Dying { shortage, ..self }
    }

    /// Nothing comes after it: its guest has been ended meanwhile.
    pub(super) fn nothing_next(&mut self) {
        self.next = Next::Nothing;
    }

    /// The guest starts again after it.
    pub(super) fn starts_next(&mut self) {
        self.next = Next::Start;
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref().map(AsFd::as_fd)
    }

    /// What comes now that it is gone, and why it has ended. Nothing while it is there.
    pub(super) fn gone(&mut self) -> Option<(Next, String)> {
        let status = self.process.try_wait();
        let words = self.process.stderr();
        // One that ended in another way was not killed.
        let is_killed = status
            .as_ref()
            .ok()
            .and_then(Option::as_ref)
            .is_none_or(|it| it.signal() == Some(KILL));
        let end = match (status, words.trim()) {
            (Ok(None), _) => return None,
            (Ok(Some(status)), "") => format!("ended: {status}"),
            (Ok(Some(status)), words) => format!("ended: {status}: {words}"),
            (Err(error), _) => format!("is gone: {error}"),
        };
        let reason = match self.shortage.filter(|_| is_killed) {
            Some(Shortage::Unknown) => format!("QEMU {} (it {end})", Shortage::Unknown),
            Some(shortage) => format!("QEMU {shortage}"),
            None => format!("QEMU {end}"),
        };
        Some((self.next.clone(), reason))
    }
}
