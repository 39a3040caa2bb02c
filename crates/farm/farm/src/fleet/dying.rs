//! A QEMU that was killed and has not exited yet.
//!
//! A QEMU with much memory takes a while to free it, and a QEMU that waits for a disk exits when
//! the disk responds. The process's pidfd is in the fleet's poll set, so no call blocks until the
//! exit. The next step begins after the exit.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;

use procfs::Shortage;
use rustix::process::Signal;
use vm::Process;

/// The signal that both the kernel's OOM killer and a farm send.
const KILL: i32 = Signal::KILL.as_raw();

/// Next step after the exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// No step, because the reason was reported before.
    Nothing,
    /// The guest ends, with its QEMU's last messages as the reason.
    End,
    /// The guest restarts. The restart has to wait while the old QEMU has the guest's disk open.
    Start,
}

#[derive(Debug)]
pub(super) struct Dying {
    process: Process,
    /// Descriptor that is readable after the exit. Without this descriptor the process is checked
    /// in each tick.
    end: Option<OwnedFd>,
    next: Next,
    /// Memory shortage that made the kernel kill the process; `None` if the farm killed the
    /// process.
    shortage: Option<Shortage>,
}

impl Dying {
    pub(super) fn kill(mut process: Process, next: Next) -> Dying {
        process.strike();
        Dying { end: process.descriptor().ok(), process, next, shortage: None }
    }

    /// Stores the memory shortage that may have made the kernel kill the process already.
    pub(super) fn lacking(self, shortage: Option<Shortage>) -> Dying {
        Dying { shortage, ..self }
    }

    /// Cancels the next step, as the guest was ended meanwhile.
    pub(super) fn nothing_next(&mut self) {
        self.next = Next::Nothing;
    }

    /// Restarts the guest after the process has exited.
    pub(super) fn starts_next(&mut self) {
        self.next = Next::Start;
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref().map(AsFd::as_fd)
    }

    /// Returns the next step and the reason for the end; `None` while the process exists.
    pub(super) fn gone(&mut self) -> Option<(Next, String)> {
        let status = self.process.try_wait();
        let words = self.process.stderr();
        // A shortage is the reason for the exit only if a signal killed the process.
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
