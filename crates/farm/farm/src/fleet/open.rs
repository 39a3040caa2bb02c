//! State of one start of a guest: its process, and its connections except the daemon's port.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use procfs::KillWatch;
use qmp::Ticket;
use reactor::{Budget, PollFlags, read_some};
use vm::{DeviceFile, GoOn, Guest, Process, SocketFile};

use super::monitor::QmpLink;
use super::parking::Parking;

/// Rate limit of a guest's console output, in tokens per second, and its burst. A read costs one
/// token per byte, but at least `CONSOLE_READ` tokens. An emulated console delivers its bytes one
/// by one, and each byte causes a wake-up.
const CONSOLE_A_SECOND: u64 = 16 * 1024;
const CONSOLE_BURST: u64 = 256 * 1024;
const CONSOLE_READ: u64 = 256;

#[derive(Debug)]
pub(super) struct RunningGuest {
    pub(super) process: Process,
    pub(super) console: UnixStream,
    pub(super) console_budget: Budget,
    pub(super) qmp: QmpLink,
    pub(super) ctl: Option<UnixStream>,
    /// UUID of this start only.
    pub(super) uuid: [u8; 16],
    /// Saved state to resume from, until this state is sent to QEMU.
    pub(super) go_on: Option<GoOn>,
    /// The commands sent to QEMU to load the saved state.
    pub(super) going_on: Vec<Ticket>,
    /// Parking of the guest in memory.
    pub(super) parking: Parking,
    /// File for the state of the guest's devices, if the guest may be parked on disk.
    pub(super) devices: Option<DeviceFile>,
    /// True if the guest continues from its state in another QEMU.
    pub(super) is_resumed: bool,
    /// OOM kills in the guest's cgroups since the guest's QEMU joined them.
    pub(super) kills: KillWatch,
    /// Socket of the second monitor. The socket is hidden while the guest is parked, because a
    /// manager that connected then would wait for a stopped QEMU.
    pub(super) monitor_file: Option<SocketFile>,
    /// Socket of the daemon's port, removed on drop.
    _port_file: Option<SocketFile>,
}

impl RunningGuest {
    /// Splits a started guest into its state and its daemon's port.
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
            monitor_file: guest.monitor_file,
            _port_file: guest.port_file,
        };
        Ok((running, guest.port))
    }

    /// Returns the console's descriptor. A console over its budget is not read.
    pub(super) fn console_fd(&self) -> (BorrowedFd<'_>, PollFlags) {
        let is_read = self.console_budget.left() > 0;
        (self.console.as_fd(), if is_read { PollFlags::IN } else { PollFlags::empty() })
    }

    pub(super) fn read_console<'b>(&mut self, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
        let count = read_some(&mut self.console, buffer)?;
        if count > 0 {
            self.console_budget.spend(CONSOLE_READ.max(count as u64));
        }
        Ok(&buffer[..count])
    }
}
