//! What one start of a guest has: its process, and its connections but the daemon's port.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use procfs::KillWatch;
use qmp::Ticket;
use reactor::{Budget, PollFlags, read_some};
use vm::{DeviceFile, GoOn, Guest, Process, SocketFile};

use super::monitor::QmpLink;
use super::parking::Parking;

/// What a guest may write to its console: so many tokens a second, and at once. A read costs
/// one a byte, and never less than `CONSOLE_READ`: an emulated console hands over its bytes one
/// by one, and each of them wakes us.
const CONSOLE_A_SECOND: u64 = 16 * 1024;
const CONSOLE_BURST: u64 = 256 * 1024;
const CONSOLE_READ: u64 = 256;

/// A guest whose QEMU runs.
#[derive(Debug)]
pub(super) struct RunningGuest {
    pub(super) process: Process,
    pub(super) console: UnixStream,
    pub(super) console_budget: Budget,
    pub(super) qmp: QmpLink,
    pub(super) ctl: Option<UnixStream>,
    /// Of this start alone.
    pub(super) uuid: [u8; 16],
    /// The state that it goes on from, until QEMU has it.
    pub(super) go_on: Option<GoOn>,
    /// The commands that QEMU got for that.
    pub(super) going_on: Vec<Ticket>,
    /// Whether it is parked.
    pub(super) parking: Parking,
    /// The state of its devices, if it may be parked on disk.
    pub(super) devices: Option<DeviceFile>,
    /// Whether it goes on from where it was in another QEMU.
    pub(super) is_resumed: bool,
    /// Counts of its cgroups since it is in them.
    pub(super) kills: KillWatch,
    /// Where others connect to its second monitor.
    pub(super) others: Option<UnixListener>,
    /// Their files go with them.
    _sockets: Vec<SocketFile>,
}

impl RunningGuest {
    /// Takes a guest that has just been started, and its daemon's port apart.
    pub(super) fn new(guest: Guest, now_ms: u64) -> io::Result<(RunningGuest, UnixStream)> {
        guest.console.set_nonblocking(true)?;
        let running = RunningGuest {
            process: guest.process,
            console: guest.console,
            console_budget: Budget::new(CONSOLE_A_SECOND, CONSOLE_BURST, now_ms),
            qmp: QmpLink::new(guest.qmp)?,
            ctl: guest.ctl,
            uuid: guest.uuid,
            go_on: guest.go_on,
            going_on: Vec::new(),
            parking: Parking::default(),
            devices: guest.devices,
            is_resumed: false,
            kills: KillWatch::default(),
            others: guest.others,
            _sockets: guest.sockets,
        };
        Ok((running, guest.port))
    }

    /// A console that has written too much is not read for a while.
    pub(super) fn console_fd(&self) -> (BorrowedFd<'_>, PollFlags) {
        let is_read = self.console_budget.left() > 0;
        (self.console.as_fd(), if is_read { PollFlags::IN } else { PollFlags::empty() })
    }

    /// Reads the console's output into `buffer`.
    pub(super) fn read_console<'b>(&mut self, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
        let count = read_some(&mut self.console, buffer)?;
        if count > 0 {
            self.console_budget.spend(CONSOLE_READ.max(count as u64));
        }
        Ok(&buffer[..count])
    }
}
