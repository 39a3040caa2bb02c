//! A QEMU that was killed and is not gone yet.
//!
//! One with much memory takes its time to give that back, and one that waits for a disk goes when
//! the disk answers. Its end is a descriptor in the fleet's poll: nobody waits for it, and what is
//! to come after it comes then.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use procfs::Shortage;
use vm::Process;

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
        let reason = match (status, self.shortage, words.trim()) {
            (Ok(None), ..) => return None,
            (_, Some(shortage), _) => format!("QEMU {shortage}"),
            (Ok(Some(status)), None, "") => format!("QEMU ended: {status}"),
            (Ok(Some(status)), None, words) => format!("QEMU ended: {status}: {words}"),
            (Err(error), None, _) => format!("QEMU is gone: {error}"),
        };
        Some((self.next.clone(), reason))
    }
}
