//! Parking of guests. The QEMU of a parked guest is stopped, and its memory is paged out, until the
//! guest is wanted again.
//!
//! ```text
//!   asleep for so long ─► QMP stop ─► SIGSTOP ─► paged out by the pager ─► parked
//!           ▲                                                                │
//!           └── time of day ◄── QMP cont ◄── SIGCONT ◄── a client, ◄─────────┘
//!                                        a request, or it was long enough
//! ```
//!
//! There is no proxy between a guest and its clients. The sockets of a stopped QEMU stay open, and
//! the kernel queues new connections and data at these sockets. The fleet polls duplicates of these
//! sockets to notice the connections and the data.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use hypervisor::{PageOut, PageOutError, ProcessId};
use procfs::parse::value_of;
use procfs::{Chance, Work};
use qmp::{Command, Failure, Reply, Ticket};
use reactor::{PollFlags, PollSet};
use vm::{DeviceFile, GuestSpec, PortSockets};

use super::fault::Fault;
use super::open::RunningGuest;
use super::park_clock::{ParkRule, SILENT_MS};
use super::parking::{Saver, Stage};
use super::refusal::{NotWoken, Refusal};
use super::worker::{Job, Worker};

/// Timeout for a response of QEMU. Only time in which QEMU could run counts. QEMU responds at once,
/// and saving the devices takes less than a second.
const ANSWER_MAX_MS: u64 = 30_000;

/// Outcome of a response from QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkNews {
    /// No news for the owner of the guest.
    Nothing,
    /// The guest runs again.
    Woken,
}

impl RunningGuest {
    /// Adds the descriptors that become ready when a client connects to this parked guest or sends
    /// data.
    pub(super) fn client_fds<'a>(&'a self, key: u64, set: &mut PollSet<'a>) {
        if let Stage::Parked { sockets, is_wanted: false, .. } = &self.parking.stage {
            sockets.fds().for_each(|fd| set.add(key, fd, PollFlags::IN));
        }
    }

    /// Starts to park the guest, unless it is parked.
    pub(super) fn park(&mut self, spec: &GuestSpec, rule: ParkRule) -> Result<(), Refusal> {
        match self.parking.stage {
            Stage::Awake => {}
            Stage::Stopping { .. } | Stage::Saving { .. } | Stage::Parked { .. } => return Ok(()),
            Stage::Waking { .. } => return Err(Refusal::State("waking")),
        }
        if spec.net.as_ref().is_some_and(|net| net.linked) {
            return Err(Refusal::Linked);
        }
        if !spec.suspends {
            self.port_sockets(spec, rule)?;
        }
        let asked = self.qmp.ask(Command::Stop).ok_or(Refusal::Silent)?;
        self.show_monitor(false);
        self.parking.stage = Stage::Stopping { asked, is_wanted: false };
        Ok(())
    }

    /// Returns QEMU's sockets at the guest's ports. The error names connected clients that prevent
    /// parking.
    fn port_sockets(&self, spec: &GuestSpec, rule: ParkRule) -> Result<PortSockets, Refusal> {
        let sockets = self.sockets_at(spec).map_err(Refusal::Ports)?;
        let silent = sockets.silent(SILENT_MS).unwrap_or_default();
        match sockets.connections().saturating_sub(silent) {
            0 => Ok(sockets),
            count if !rule.with_connections => Err(Refusal::Clients { count }),
            _ if !sockets.are_quiet().is_ok_and(|are_quiet| are_quiet) => Err(Refusal::BusyClient),
            _ => Ok(sockets),
        }
    }

    pub(super) fn sockets_at(&self, spec: &GuestSpec) -> io::Result<PortSockets> {
        let forwards = spec.net.iter().flat_map(|net| &net.forwards);
        let ports: Vec<u16> = forwards.map(|forward| forward.host_port).collect();
        PortSockets::of(&self.process, &ports)
    }

    /// Returns true if the guest was woken for clients and none of them has sent anything yet.
    pub(super) fn is_woken_for_nothing(&mut self, spec: &GuestSpec, now_ms: u64) -> bool {
        let Ok(sockets) = self.sockets_at(spec) else { return false };
        let (all, unheard) = (sockets.connections(), sockets.silent(0).unwrap_or_default());
        if all == 0 || unheard < all {
            // A client that has disconnected may have been served.
            self.parking.clock.was_wanted();
            return false;
        }
        let is_so = sockets.silent(SILENT_MS).is_ok_and(|silent| silent == all);
        if !is_so {
            self.parking.clock.looks_again(now_ms);
        }
        is_so
    }

    /// Handles activity of a client. Returns true if the guest must be woken and was not wanted
    /// before.
    pub(super) fn client_came(&mut self) -> bool {
        let Stage::Parked { sockets, is_wanted, .. } = &mut self.parking.stage else {
            return false;
        };
        !*is_wanted && {
            *is_wanted = sockets.are_wanted();
            *is_wanted
        }
    }

    /// Lets the guest run, if it is parked or about to be.
    pub(super) fn wake(&mut self) -> Result<(), NotWoken> {
        self.parking.clock.wakes(None);
        match &mut self.parking.stage {
            Stage::Awake | Stage::Waking { .. } => {}
            Stage::Stopping { is_wanted, .. } | Stage::Saving { is_wanted, .. } => {
                *is_wanted = true;
            }
            Stage::Parked { .. } => self.go_on()?,
        }
        Ok(())
    }

    /// Lets QEMU and its vCPUs run. The call has no effect on a process that was not stopped. The
    /// error states why the guest will never run.
    fn go_on(&mut self) -> Result<(), NotWoken> {
        self.process.go_on().map_err(NotWoken::Process)?;
        self.show_monitor(true);
        let asked = self.qmp.ask(Command::Continue).ok_or(NotWoken::Silent)?;
        self.parking.stage = Stage::Waking { asked };
        Ok(())
    }

    /// Shows the second monitor's socket to managers, or hides it.
    fn show_monitor(&mut self, is_shown: bool) {
        let Some(file) = &mut self.monitor_file else { return };
        // This call fails only if the directory was removed. Without the directory no manager can
        // find the guest.
        let _ = if is_shown { file.show() } else { file.hide() };
    }

    /// Handles QEMU's response to stop, save or continue. `None` means a response to another
    /// request.
    pub(super) fn park_answered(
        &mut self,
        (ticket, outcome): (Ticket, &Result<Reply, Failure>),
        (spec, rule): (&GuestSpec, ParkRule),
        now_ms: u64,
    ) -> Option<Result<ParkNews, NotWoken>> {
        Some(match (&self.parking.stage, outcome) {
            (Stage::Stopping { asked, is_wanted }, Ok(_)) if *asked == ticket => {
                let is_wanted = *is_wanted;
                self.has_stopped(is_wanted, spec, rule, now_ms)
            }
            (Stage::Stopping { asked, .. }, Err(_)) if *asked == ticket => {
                self.parking.stage = Stage::Awake;
                self.show_monitor(true);
                self.parking.clock.was_refused(now_ms);
                Ok(ParkNews::Woken)
            }
            (Stage::Saving { by: Saver::Qemu(asked), .. }, _) if *asked == ticket => {
                self.has_devices(outcome, now_ms)
            }
            (Stage::Waking { asked }, Ok(_)) if *asked == ticket => {
                self.parking.stage = Stage::Awake;
                Ok(ParkNews::Woken)
            }
            (Stage::Waking { asked }, Err(failure)) if *asked == ticket => {
                Err(NotWoken::Refused { desc: failure.desc.clone() })
            }
            _ => return None,
        })
    }

    /// Stops QEMU's process after QEMU has stopped the vCPUs. If the guest is parked on disk, QEMU
    /// first saves its devices.
    fn has_stopped(
        &mut self,
        is_wanted: bool,
        spec: &GuestSpec,
        rule: ParkRule,
        now_ms: u64,
    ) -> Result<ParkNews, NotWoken> {
        if spec.suspends {
            return self.save_devices(is_wanted, now_ms);
        }
        let paused = self.process.pause().ok();
        // A client may have connected before the stop. A client that connects from now on wakes the
        // guest.
        let sockets = paused.and_then(|()| self.port_sockets(spec, rule).ok());
        let is_kept = sockets.is_some() && !is_wanted;
        let sockets = sockets.unwrap_or_default();
        let rest = is_kept.then(OnceCell::new);
        self.parking.refused = None;
        self.parking.stage = Stage::Parked { sockets, since_ms: now_ms, rest, is_wanted: false };
        if is_kept {
            return Ok(ParkNews::Nothing);
        }
        self.parking.clock.was_refused(now_ms);
        self.wake()?;
        if !is_wanted {
            // A client has connected meanwhile, and may stay silent.
            self.parking.clock.wakes(Some(now_ms));
        }
        Ok(ParkNews::Nothing)
    }

    /// Lets a thread page out the guest, if it is parked. Returns true once, when the page-out is
    /// over.
    pub(super) fn page_out(&mut self, pager: &mut Worker) -> bool {
        self.parking.page_out(|| {
            let process = ProcessId::of(self.process.id());
            Job::begin(pager, move |is_left: &AtomicBool| page_out(process, is_left))
        })
    }
}

/// Pages out QEMU's memory, and stops when the guest is woken. The error is the kernel's reason for
/// not paging out the rest. An ended QEMU is no error.
fn page_out(process: Option<ProcessId>, is_left: &AtomicBool) -> Result<(), Fault> {
    let take = |process| {
        let mut slices = PageOut::take_from(process, 0)?;
        while !is_left.load(Ordering::Relaxed) && slices.next().transpose()?.is_some() {}
        Ok(())
    };
    let Some(process) = process else { return Ok(()) };
    outcome(take(process), &fs::read("/proc/meminfo").unwrap_or_default())
}

/// Returns the reason why memory stays after a page-out on a host with this /proc/meminfo.
fn outcome(done: Result<(), PageOutError>, meminfo: &[u8]) -> Result<(), Fault> {
    match done {
        // Only pages of files have left the memory.
        Ok(()) if !has_swap(meminfo) => Err(Fault::NoSwap),
        Err(error @ PageOutError::Refused(_)) => Err(Fault::of(error)),
        Ok(()) | Err(PageOutError::Gone) => Ok(()),
    }
}

/// Returns false if the host's /proc/meminfo has no swap, to which memory could be paged out.
fn has_swap(meminfo: &[u8]) -> bool {
    value_of(meminfo, "SwapTotal") != Some(0)
}

impl RunningGuest {
    /// Returns a note for the user if QEMU has not answered for long. A guest that was about to be
    /// parked is then resumed: QEMU handles requests in order, so the resume request is handled
    /// last. The error ends the guest.
    pub(super) fn tick_answer(&mut self, now_ms: u64) -> Option<Result<String, NotWoken>> {
        let (parking, pid) = (&mut self.parking, self.process.id());
        let asked = parking.stage.asked()?;
        let mut had = match parking.waits {
            Some((ticket, had)) if ticket == asked => had,
            _ => Chance::default(),
        };
        let is_late = had.look(now_ms, || Work::of_process(pid)) >= ANSWER_MAX_MS;
        parking.waits = Some((asked, if is_late { Chance::since(now_ms) } else { had }));
        is_late.then_some(())?;
        let why = Fault::Late { seconds: ANSWER_MAX_MS / 1000 };
        if let Stage::Waking { .. } = parking.stage {
            return Some(Ok(format!("is not woken yet: {why}")));
        }
        let note = format!("is not parked: {why}");
        Some(self.is_not_saved(Some(why), now_ms).map(|()| note))
    }

    /// Requests the state of the devices from QEMU. The vCPUs are stopped.
    fn save_devices(&mut self, is_wanted: bool, now_ms: u64) -> Result<ParkNews, NotWoken> {
        let command = match self.devices.as_mut().map(DeviceFile::save) {
            Some(command) => command.map_err(Fault::of),
            None => Err(Fault::NoFile),
        };
        match command {
            Ok(command) if !is_wanted => {
                let asked = self.qmp.ask(command).ok_or(NotWoken::Silent)?;
                let by = Saver::Qemu(asked);
                self.parking.stage = Stage::Saving { by, is_wanted: false };
            }
            other => self.is_not_saved(other.err(), now_ms)?,
        }
        Ok(ParkNews::Nothing)
    }

    /// Handles QEMU's response to the request for the state of its devices.
    fn has_devices(
        &mut self,
        outcome: &Result<Reply, Failure>,
        now_ms: u64,
    ) -> Result<ParkNews, NotWoken> {
        let Stage::Saving { is_wanted, .. } = self.parking.stage else {
            return Ok(ParkNews::Nothing);
        };
        let mut read = || self.devices.as_mut().map_or(Ok(Vec::new()), DeviceFile::read);
        let devices = match outcome {
            Ok(_) => self.process.pause().and_then(|()| read()).map_err(Fault::of),
            Err(failure) => Err(Fault::Qemu(failure.desc.clone())),
        };
        match devices {
            Ok(devices) if !is_wanted => {
                self.parking.stage = Stage::Saving { by: Saver::Nobody(devices), is_wanted };
            }
            other => self.is_not_saved(other.err(), now_ms)?,
        }
        Ok(ParkNews::Nothing)
    }

    /// Lets the guest continue where it was, and keeps the reason if saving failed. The error
    /// states why the guest will never run.
    pub(super) fn is_not_saved(&mut self, why: Option<Fault>, now_ms: u64) -> Result<(), NotWoken> {
        match why.is_some() {
            true => self.parking.clock.cannot_be_saved(now_ms),
            false => self.parking.clock.was_refused(now_ms),
        }
        self.parking.refused = why;
        self.go_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_when_host_has_no_swap() {
        let none = b"MemTotal: 8 kB\nSwapTotal:       0 kB\nSwapFree: 0 kB\n";
        assert!(!has_swap(none));
        assert!(has_swap(b"SwapTotal: 1048572 kB\nSwapFree: 0 kB\n"));
        assert!(has_swap(b""), "unknown");
        assert!(matches!(outcome(Ok(()), none), Err(Fault::NoSwap)));
        assert!(outcome(Ok(()), b"").is_ok());
        assert!(outcome(Err(PageOutError::Gone), none).is_ok(), "no memory is left to stay");
    }

    #[test]
    fn page_out_refuses_nothing_when_qemu_is_gone() {
        let is_left = AtomicBool::new(false);
        assert!(page_out(None, &is_left).is_ok());
        let ended = ProcessId { pid: u32::MAX, start_ticks: 1 };
        assert!(page_out(Some(ended), &is_left).is_ok());
    }
}
