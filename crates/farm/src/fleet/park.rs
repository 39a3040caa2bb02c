//! Guests that sleep: their QEMU is stopped and keeps no memory, until somebody wants them.
//!
//! ```text
//!   asleep for so long ─► QMP stop ─► SIGSTOP ─► paged out by the pager ─► parked
//!           ▲                                                                │
//!           └── time of day ◄── QMP cont ◄── SIGCONT ◄── a client, ◄─────────┘
//!                                        a question, or it was long enough
//! ```
//!
//! Nobody stands between a guest and its clients: QEMU's sockets stay open while it is stopped, the
//! kernel takes connections and bytes for it, and duplicates of these sockets tell us of them.

use std::cell::OnceCell;
use std::fmt::Display;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use hypervisor::{PageOut, PageOutError, ProcessId};
use procfs::{Chance, Work};
use qmp::{Command, Failure, Reply, Ticket};
use reactor::{PollFlags, PollSet};
use vm::{DeviceFile, GuestSpec, PortSockets};

use super::open::RunningGuest;
use super::park_clock::{ParkRule, SILENT_MS};
use super::parking::{Saver, Stage};
use super::worker::{Job, Worker};

/// QEMU answers at once, and saves its devices in less than a second: it is given so much time in
/// which it could run.
const ANSWER_MAX_MS: u64 = 30_000;

/// What came of an answer of QEMU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkNews {
    /// Nothing that anybody waits for.
    Nothing,
    /// It was parked, and runs.
    Woken,
}

impl RunningGuest {
    /// What becomes ready when a client of its ports may want a guest that is parked.
    pub(super) fn client_fds<'a>(&'a self, key: u64, set: &mut PollSet<'a>) {
        if let Stage::Parked { sockets, is_wanted: false, .. } = &self.parking.stage {
            sockets.fds().for_each(|fd| set.add(key, fd, PollFlags::IN));
        }
    }

    /// What becomes ready when a manager wants a guest that is parked.
    pub(super) fn manager_fds<'a>(&'a self, key: u64, set: &mut PollSet<'a>) {
        // One that somebody wants already comes back by itself.
        let is_on_its_way = matches!(self.parking.stage, Stage::Saving { is_wanted: true, .. });
        if self.parking.is_stopped() && !is_on_its_way {
            self.others.iter().for_each(|fd| set.add(key, fd.as_fd(), PollFlags::IN));
        }
    }

    /// Begins to park it, unless it is parked. The error says why that cannot be now.
    pub(super) fn park(&mut self, spec: &GuestSpec, rule: ParkRule) -> Result<(), String> {
        match self.parking.stage {
            Stage::Awake => {}
            Stage::Stopping { .. } | Stage::Saving { .. } | Stage::Parked { .. } => return Ok(()),
            Stage::Waking { .. } => return Err("it is waking".to_owned()),
        }
        if spec.net.as_ref().is_some_and(|net| net.linked) {
            return Err("other guests reach it by a link, which would not wake it".to_owned());
        }
        if !spec.suspends {
            self.port_sockets(spec, rule)?;
        }
        let asked = self.qmp.ask(Command::Stop).ok_or("its QEMU does not answer")?;
        self.parking.stage = Stage::Stopping { asked, is_wanted: false };
        Ok(())
    }

    /// Its QEMU's sockets at its ports, if nobody is there who may not be kept waiting.
    fn port_sockets(&self, spec: &GuestSpec, rule: ParkRule) -> Result<PortSockets, String> {
        let sockets = self.sockets_at(spec)?;
        let silent = sockets.silent(SILENT_MS).unwrap_or_default();
        match sockets.connections().saturating_sub(silent) {
            0 => Ok(sockets),
            count if !rule.with_connections => {
                Err(format!("clients are connected to its ports ({count})"))
            }
            _ if !sockets.are_quiet().is_ok_and(|are_quiet| are_quiet) => {
                Err("a client has just sent something, or waits for something".to_owned())
            }
            _ => Ok(sockets),
        }
    }

    pub(super) fn sockets_at(&self, spec: &GuestSpec) -> Result<PortSockets, String> {
        let forwards = spec.net.iter().flat_map(|net| &net.forwards);
        let ports: Vec<u16> = forwards.map(|forward| forward.host_port).collect();
        let sockets = PortSockets::of(&self.process, &ports);
        sockets.map_err(|error| format!("its ports cannot be watched: {error}"))
    }

    /// Whether it was woken for clients of whom none has said anything until now.
    pub(super) fn is_woken_for_nothing(&mut self, spec: &GuestSpec, now_ms: u64) -> bool {
        let Ok(sockets) = self.sockets_at(spec) else { return false };
        let (all, unheard) = (sockets.connections(), sockets.silent(0).unwrap_or_default());
        if all == 0 || unheard < all {
            // Who has gone may have got what it came for.
            self.parking.clock.was_wanted();
            return false;
        }
        let is_so = sockets.silent(SILENT_MS).is_ok_and(|silent| silent == all);
        if !is_so {
            self.parking.clock.looks_again(now_ms);
        }
        is_so
    }

    /// A client may want it, or has gone. True if it is to be woken, and was not before.
    pub(super) fn client_came(&mut self) -> bool {
        let Stage::Parked { sockets, is_wanted, .. } = &mut self.parking.stage else {
            return false;
        };
        !*is_wanted && {
            *is_wanted = sockets.are_wanted();
            *is_wanted
        }
    }

    /// Lets it run, if it is parked or about to be. The error says why it never will.
    pub(super) fn wake(&mut self) -> Result<(), String> {
        self.parking.clock.wakes(None);
        match &mut self.parking.stage {
            Stage::Awake | Stage::Waking { .. } => {}
            Stage::Stopping { is_wanted, .. } | Stage::Saving { is_wanted, .. } => {
                *is_wanted = true;
            }
            Stage::Parked { .. } => {
                let failed = |error: &dyn Display| format!("It cannot be woken: {error}");
                self.process.go_on().map_err(|error| failed(&error))?;
                let asked = self.qmp.ask(Command::Continue);
                let asked = asked.ok_or_else(|| failed(&"its QEMU does not answer"))?;
                self.parking.stage = Stage::Waking { asked };
            }
        }
        Ok(())
    }

    /// Takes QEMU's answer to stop or to go on; `None` if it is to something else. An error is the
    /// guest's end.
    pub(super) fn park_answered(
        &mut self,
        (ticket, outcome): (Ticket, &Result<Reply, Failure>),
        (spec, rule): (&GuestSpec, ParkRule),
        now_ms: u64,
    ) -> Option<Result<ParkNews, String>> {
        Some(match (&self.parking.stage, outcome) {
            (Stage::Stopping { asked, is_wanted }, Ok(_)) if *asked == ticket => {
                let is_wanted = *is_wanted;
                self.has_stopped(is_wanted, spec, rule, now_ms)
            }
            (Stage::Stopping { asked, .. }, Err(_)) if *asked == ticket => {
                self.parking.stage = Stage::Awake;
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
                Err(format!("It cannot be woken: {}", failure.desc))
            }
            _ => return None,
        })
    }

    /// Its virtual CPUs are stopped: its QEMU is next.
    fn has_stopped(
        &mut self,
        is_wanted: bool,
        spec: &GuestSpec,
        rule: ParkRule,
        now_ms: u64,
    ) -> Result<ParkNews, String> {
        if spec.suspends {
            return self.save_devices(is_wanted, now_ms);
        }
        let paused = self.process.pause().map_err(|error| error.to_string());
        // Somebody may have come before it was stopped; who comes now wakes it.
        let sockets = paused.and_then(|()| self.port_sockets(spec, rule));
        let is_kept = sockets.is_ok() && !is_wanted;
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
            // A client has come meanwhile, who may say nothing.
            self.parking.clock.wakes(Some(now_ms));
        }
        Ok(ParkNews::Nothing)
    }

    /// Has a thread page it out, if it is parked. True if that is done now.
    pub(super) fn page_out(&mut self, pager: &mut Worker) -> bool {
        self.parking.page_out(|| {
            let process = ProcessId::of(self.process.id());
            Job::begin(pager, move |is_left: &AtomicBool| page_out(process, is_left))
        })
    }
}

/// Hands a QEMU's memory to the kernel until its guest is woken. The error is why the kernel takes
/// no more of it; a QEMU that is gone is no error.
fn page_out(process: Option<ProcessId>, is_left: &AtomicBool) -> Result<(), String> {
    let take = |process| {
        let mut slices = PageOut::take_from(process, 0)?;
        while !is_left.load(Ordering::Relaxed) && slices.next().transpose()?.is_some() {}
        Ok(())
    };
    match process.map_or(Ok(()), take) {
        Err(PageOutError::Refused(error)) => Err(error.to_string()),
        Ok(()) | Err(PageOutError::Gone) => Ok(()),
    }
}

impl RunningGuest {
    /// Notices that QEMU has not answered for long, and gives a note for people then. A guest that
    /// was to be parked is to run instead: QEMU does what it was asked in turn. The error is the
    /// guest's end.
    pub(super) fn tick_answer(&mut self, now_ms: u64) -> Option<Result<String, String>> {
        let (parking, pid) = (&mut self.parking, self.process.id());
        let asked = parking.stage.asked()?;
        let mut had = match parking.waits {
            Some((ticket, had)) if ticket == asked => had,
            _ => Chance::default(),
        };
        let is_late = had.look(now_ms, || Work::of_process(pid)) >= ANSWER_MAX_MS;
        parking.waits = Some((asked, if is_late { Chance::since(now_ms) } else { had }));
        is_late.then_some(())?;
        let why = format!("its QEMU has not answered for {} s", ANSWER_MAX_MS / 1000);
        if let Stage::Waking { .. } = parking.stage {
            return Some(Ok(format!("is not woken yet: {why}")));
        }
        Some(self.is_not_saved(Some(why.clone()), now_ms).map(|()| format!("is not parked: {why}")))
    }

    /// Its virtual CPUs are stopped: QEMU is asked for the state of its devices.
    fn save_devices(&mut self, is_wanted: bool, now_ms: u64) -> Result<ParkNews, String> {
        let no_file = || "it was not started for that".to_owned();
        let command = match self.devices.as_mut().map(DeviceFile::save) {
            Some(command) => command.map_err(|error| error.to_string()),
            None => Err(no_file()),
        };
        match command {
            Ok(command) if !is_wanted => {
                let asked = self.qmp.ask(command).ok_or("its QEMU does not answer")?;
                let by = Saver::Qemu(asked);
                self.parking.stage = Stage::Saving { by, is_wanted: false };
            }
            other => self.is_not_saved(other.err(), now_ms)?,
        }
        Ok(ParkNews::Nothing)
    }

    /// QEMU has written its devices, or has not.
    fn has_devices(
        &mut self,
        outcome: &Result<Reply, Failure>,
        now_ms: u64,
    ) -> Result<ParkNews, String> {
        let Stage::Saving { is_wanted, .. } = self.parking.stage else {
            return Ok(ParkNews::Nothing);
        };
        let mut read = || self.devices.as_mut().map_or(Ok(Vec::new()), DeviceFile::read);
        let devices = match outcome {
            Ok(_) => self.process.pause().and_then(|()| read()).map_err(|e| e.to_string()),
            Err(failure) => Err(failure.desc.clone()),
        };
        match devices {
            Ok(devices) if !is_wanted => {
                self.parking.stage = Stage::Saving { by: Saver::Nobody(devices), is_wanted };
            }
            other => self.is_not_saved(other.err(), now_ms)?,
        }
        Ok(ParkNews::Nothing)
    }

    /// It goes on where it was; and why it could not be saved, if that is so. The error says why
    /// it never will.
    pub(super) fn is_not_saved(&mut self, why: Option<String>, now_ms: u64) -> Result<(), String> {
        let failed = |error: &dyn Display| format!("It cannot be woken: {error}");
        // Also where it was not stopped: then this is nothing.
        self.process.go_on().map_err(|error| failed(&error))?;
        match why.is_some() {
            true => self.parking.clock.cannot_be_saved(now_ms),
            false => self.parking.clock.was_refused(now_ms),
        }
        self.parking.refused = why;
        let asked = self.qmp.ask(Command::Continue);
        let asked = asked.ok_or_else(|| failed(&"its QEMU does not answer"))?;
        self.parking.stage = Stage::Waking { asked };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_out_refuses_nothing_when_qemu_is_gone() {
        let is_left = AtomicBool::new(false);
        assert_eq!(page_out(None, &is_left), Ok(()));
        let ended = ProcessId { pid: u32::MAX, start_ticks: 1 };
        assert_eq!(page_out(Some(ended), &is_left), Ok(()));
    }
}
