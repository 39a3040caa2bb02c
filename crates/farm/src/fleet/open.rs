//! The connections of one running guest, and what it may say on its console.

use std::os::unix::net::UnixStream;

use hypervisor::{Budget, Port};
use qmp::Ticket;
use rustix::event::PollFlags;

use super::naming::Naming;
use crate::{GoOn, Process, SocketFile};

/// What a guest may say on its console: so many tokens a second, and at once. A read costs
/// one a byte, and never less than `CONSOLE_READ`: an emulated console hands over its bytes one
/// by one, and each of them wakes us.
pub(crate) const CONSOLE_A_SECOND: u64 = 16 * 1024;
pub(crate) const CONSOLE_BURST: u64 = 256 * 1024;
pub(crate) const CONSOLE_READ: u64 = 256;

/// The connections of a guest whose QEMU runs.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) process: Process,
    pub(crate) console: UnixStream,
    pub(crate) qmp: UnixStream,
    /// `None` while a host manager has it.
    pub(crate) port: Option<Port>,
    pub(crate) client: qmp::Client,
    pub(crate) ctl: Option<UnixStream>,
    /// Of this start alone.
    pub(crate) uuid: [u8; 16],
    /// The state that it goes on from, until QEMU was told.
    pub(crate) go_on: Option<GoOn>,
    /// What QEMU was told of that.
    pub(crate) going_on: Vec<Ticket>,
    pub(crate) naming: Naming,
    pub(crate) console_budget: Budget,
    /// Their files go with them.
    pub(crate) _sockets: Vec<SocketFile>,
}

impl Open {
    /// A console that has said too much is not listened to for a while.
    pub(crate) fn console_flags(&self) -> PollFlags {
        if self.console_budget.left() > 0 { PollFlags::IN } else { PollFlags::empty() }
    }

    pub(crate) fn refill(&mut self, now_ms: u64) {
        self.console_budget.refill(now_ms);
        if let Some(port) = &mut self.port {
            port.refill(now_ms);
        }
    }

    pub(crate) fn qmp_flags(&self) -> PollFlags {
        match self.client.output().is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        }
    }
}
