//! Guests that sleep: their QEMU is stopped and keeps no memory, until somebody wants them.
//!
//! ```text
//!   asleep for so long ─► QMP stop ─► SIGSTOP ─► paged out by the taker ─► parked
//!           ▲                                                                │
//!           └── time of day ◄── QMP cont ◄── SIGCONT ◄── a client, ◄─────────┘
//!                                        a question, or it was long enough
//! ```
//!
//! Nobody stands between a guest and its clients: QEMU's sockets stay open while it is stopped, the
//! kernel takes connections and bytes for it, and duplicates of these sockets tell us of them.

use std::fmt::Display;
use std::os::fd::AsFd;

use hypervisor::{PageOut, PageOutError, ProcessId};
use procfs::Buffer;
use qmp::{Command, Failure, Reply, Ticket};
use reactor::{PollFlags, PollSet};
use vm::{GuestSpec, PortSockets, Process};

use super::open::RunningGuest;
use super::park_clock::{ParkClock, ParkRule, ParkWish, SILENT_MS};
use super::taker::{Taker, Taking};

/// How far a guest is on its way to sleep and back.
#[derive(Debug, Default)]
pub(super) struct Parking {
    stage: Stage,
    pub(super) clock: ParkClock,
    /// Why the host did not take its memory when it was parked last.
    refused: Option<String>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Awake,
    /// QEMU was asked to stop the virtual CPUs; somebody may have come since who wants them.
    Stopping { asked: Ticket, is_wanted: bool },
    /// QEMU is stopped.
    Parked {
        sockets: PortSockets,
        since_ms: u64,
        /// What is still to be paged out.
        rest: Option<Taking>,
        /// A client wants it, and it waits for its turn to be woken.
        is_wanted: bool,
    },
    /// QEMU was asked to let the virtual CPUs run.
    Waking { asked: Ticket },
}

impl Parking {
    /// Whether its QEMU answers nobody.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.stage, Stage::Parked { .. })
    }

    /// Whether a client wants it, and it waits for its turn to be woken.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.stage, Stage::Parked { is_wanted: true, .. })
    }

    /// Whether there is memory to be paged out.
    pub(super) fn has_rest(&self) -> bool {
        matches!(self.stage, Stage::Parked { rest: Some(_), .. })
    }

    /// Whether nothing of it is left in memory that could be elsewhere.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.stage, Stage::Parked { rest: None, .. }) && self.refused.is_none()
    }

    /// One word for it, if its guest is not as usual.
    pub(super) fn word(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Awake | Stage::Stopping { .. } => None,
            Stage::Parked { rest: Some(_), .. } => Some("parking"),
            Stage::Parked { rest: None, .. } => Some("parked"),
            Stage::Waking { .. } => Some("waking"),
        }
    }

    /// Whether it runs, and nobody has asked that it stops.
    pub(super) fn is_awake(&self) -> bool {
        matches!(self.stage, Stage::Awake)
    }
}

/// What came of an answer of QEMU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkNews {
    /// Nothing that anybody waits for.
    Nothing,
    /// The guest is parked, and nothing of it is left to be paged out.
    Parked,
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
        if self.parking.is_stopped() {
            self.others.iter().for_each(|fd| set.add(key, fd.as_fd(), PollFlags::IN));
        }
    }

    /// Begins to park it, unless it is parked. The error says why that cannot be now.
    pub(super) fn park(&mut self, spec: &GuestSpec, rule: ParkRule) -> Result<(), String> {
        match self.parking.stage {
            Stage::Awake => {}
            Stage::Stopping { .. } | Stage::Parked { .. } => return Ok(()),
            Stage::Waking { .. } => return Err("it is waking".to_owned()),
        }
        if spec.net.as_ref().is_some_and(|net| net.linked) {
            return Err("other guests reach it by a link, which would not wake it".to_owned());
        }
        self.port_sockets(spec, rule)?;
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

    fn sockets_at(&self, spec: &GuestSpec) -> Result<PortSockets, String> {
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
            Stage::Stopping { is_wanted, .. } => *is_wanted = true,
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
        let paused = self.process.pause().map_err(|error| error.to_string());
        // Somebody may have come before it was stopped; who comes now wakes it.
        let sockets = paused.and_then(|()| self.port_sockets(spec, rule));
        let is_kept = sockets.is_ok() && !is_wanted;
        let sockets = sockets.unwrap_or_default();
        let rest = is_kept.then(|| all_of(&self.process)).transpose();
        self.parking.refused = rest.as_ref().err().cloned();
        let rest = rest.unwrap_or_default();
        let has_rest = rest.is_some();
        self.parking.stage = Stage::Parked { sockets, since_ms: now_ms, rest, is_wanted: false };
        if is_kept {
            return Ok(if has_rest { ParkNews::Nothing } else { ParkNews::Parked });
        }
        self.parking.clock.was_refused(now_ms);
        self.wake()?;
        if !is_wanted {
            // A client has come meanwhile, who may say nothing.
            self.parking.clock.wakes(Some(now_ms));
        }
        Ok(ParkNews::Nothing)
    }
}

impl Parking {
    /// Has what is left of a guest that is parked paged out. True if that is done now.
    pub(super) fn page_out(&mut self, taker: &mut Taker) -> bool {
        let Stage::Parked { rest, .. } = &mut self.stage else { return false };
        let Some(taking) = rest else { return false };
        taker.take(taking);
        let Some(refused) = taking.over() else { return false };
        self.refused.clone_from(refused);
        *rest = None;
        true
    }

    /// Why the host did not take its memory, if that was so.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// What time asks for: a guest uses so much of a CPU, in percent, if that is known.
    pub(super) fn tick(
        &mut self,
        cpu_percent: Option<f64>,
        rule: ParkRule,
        may_park: bool,
        now_ms: u64,
    ) -> ParkWish {
        match self.stage {
            Stage::Awake => self.clock.awake(cpu_percent, rule, may_park, now_ms),
            Stage::Parked { since_ms, .. } => rule.parked(now_ms.saturating_sub(since_ms)),
            Stage::Stopping { .. } | Stage::Waking { .. } => ParkWish::Nothing,
        }
    }
}

/// All memory of a QEMU's own. The error is why the kernel does not take it.
fn all_of(qemu: &Process) -> Result<Taking, String> {
    let gone = || "its QEMU is gone".to_owned();
    let words = |error| match error {
        PageOutError::Refused(error) => error.to_string(),
        PageOutError::Gone => gone(),
    };
    let process = ProcessId::of(qemu.id()).ok_or_else(gone)?;
    let process = PageOut::open(process).map_err(words)?;
    let slices = process.slices(&mut Buffer::default()).map_err(words)?;
    Ok(Taking::new(process, slices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, Timespec, poll};

    #[test]
    fn a_guest_is_parking_until_its_memory_is_gone() {
        let process = ProcessId::of(std::process::id()).unwrap();
        let rest = Some(Taking::new(PageOut::open(process).unwrap(), Vec::new()));
        let sockets = PortSockets::default();
        let stage = Stage::Parked { sockets, since_ms: 0, rest, is_wanted: false };
        let mut parking = Parking { stage, ..Parking::default() };
        assert_eq!((parking.word(), parking.is_out()), (Some("parking"), false));
        let mut taker = Taker::default();
        while !parking.page_out(&mut taker) {
            let mut news = [PollFd::from_borrowed_fd(taker.fd().unwrap(), PollFlags::IN)];
            let limit = Timespec { tv_sec: 30, tv_nsec: 0 };
            assert_eq!(poll(&mut news, Some(&limit)), Ok(1), "nothing was told");
        }
        assert_eq!((parking.word(), parking.is_out()), (Some("parked"), true));
    }
}
