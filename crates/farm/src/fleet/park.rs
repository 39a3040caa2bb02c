//! Guests that sleep: their QEMU is stopped and keeps no memory, until somebody wants them.
//!
//! ```text
//!   asleep for so long ─► QMP stop ─► SIGSTOP ─► paged out, slice by slice ─► parked
//!           ▲                                                                   │
//!           └── time of day ◄── QMP cont ◄── SIGCONT ◄── a client, a question, ◄┘
//!                                                        or it was long enough
//! ```
//!
//! Nobody stands between a guest and its clients: QEMU's sockets stay open while it is stopped, the
//! kernel takes connections and bytes for it, and duplicates of these sockets tell us of them.

use std::fmt::Display;
use std::os::fd::AsFd;
use std::vec::IntoIter;

use hypervisor::{PageOut, PageOutError, ProcessId, Slice};
use procfs::Buffer;
use qmp::{Command, Failure, Reply, Ticket};
use reactor::{PollFlags, PollSet};
use vm::{GuestSpec, PortSockets, Process};

use super::open::RunningGuest;

/// A guest whose virtual CPUs use less, in percent of one of the host's CPUs, is asleep.
const ASLEEP_PERCENT: f64 = 2.0;
/// A guest that cannot be parked now is looked at again after so long.
const RETRY_MS: u64 = 10_000;

/// When a guest is parked without being asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkRule {
    /// It has slept for so long; `None`: never.
    pub after_ms: Option<u64>,
    /// It is woken after so long, whatever comes.
    pub at_most_ms: Option<u64>,
    /// Also while clients have connections to its ports. What they send wakes it.
    pub with_connections: bool,
}

/// How far a guest is on its way to sleep and back.
#[derive(Debug, Default)]
pub(super) struct Parking {
    stage: Stage,
    asleep_since_ms: Option<u64>,
    /// Somebody has used it since the last tick.
    pub(super) is_used: bool,
    /// It is not tried before.
    retry_ms: u64,
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
    Parked { sockets: PortSockets, since_ms: u64, rest: Option<Rest> },
    /// QEMU was asked to let the virtual CPUs run.
    Waking { asked: Ticket },
}

/// What is still to be paged out.
#[derive(Debug)]
struct Rest {
    process: PageOut,
    slices: IntoIter<Slice>,
}

impl Parking {
    /// Whether its QEMU answers nobody.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.stage, Stage::Parked { .. })
    }

    /// Whether there is memory to be paged out.
    pub(super) fn has_rest(&self) -> bool {
        matches!(self.stage, Stage::Parked { rest: Some(_), .. })
    }

    /// One word for it, if its guest is not as usual.
    pub(super) fn word(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Awake | Stage::Stopping { .. } => None,
            Stage::Parked { .. } => Some("parked"),
            Stage::Waking { .. } => Some("waking"),
        }
    }

    /// Whether it runs, and nobody has asked that it stops.
    pub(super) fn is_awake(&self) -> bool {
        matches!(self.stage, Stage::Awake)
    }

    /// Whether it is time to park a guest that is asleep now, or is not.
    fn is_due(&mut self, is_asleep: bool, rule: ParkRule, now_ms: u64) -> bool {
        if !is_asleep {
            self.asleep_since_ms = None;
            return false;
        }
        let since_ms = *self.asleep_since_ms.get_or_insert(now_ms);
        let has_slept = |after_ms| now_ms.saturating_sub(since_ms) >= after_ms;
        rule.after_ms.is_some_and(has_slept) && now_ms >= self.retry_ms
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
    /// What becomes ready when somebody wants a guest that is parked: a client of its ports, or a
    /// manager.
    pub(super) fn wanted_fds<'a>(&'a self, key: u64, set: &mut PollSet<'a>) {
        if let Stage::Parked { sockets, .. } = &self.parking.stage {
            let managers = self.others.iter().map(AsFd::as_fd);
            sockets.fds().chain(managers).for_each(|fd| set.add(key, fd, PollFlags::IN));
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
        let forwards = spec.net.iter().flat_map(|net| &net.forwards);
        let ports: Vec<u16> = forwards.map(|forward| forward.host_port).collect();
        let sockets = PortSockets::of(&self.process, &ports);
        let sockets = sockets.map_err(|error| format!("its ports cannot be watched: {error}"))?;
        match sockets.connections() {
            count @ 1.. if !rule.with_connections => {
                Err(format!("clients are connected to its ports ({count})"))
            }
            1.. if !sockets.are_quiet().is_ok_and(|are_quiet| are_quiet) => {
                Err("a client has just sent something, or waits for something".to_owned())
            }
            _ => Ok(sockets),
        }
    }

    /// Lets it run, if it is parked or about to be. The error says why it never will.
    pub(super) fn wake(&mut self) -> Result<(), String> {
        self.parking.asleep_since_ms = None;
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
                self.parking.retry_ms = now_ms + RETRY_MS;
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
        let rest = is_kept.then(|| Rest::of(&self.process)).transpose();
        self.parking.refused = rest.as_ref().err().cloned();
        let rest = rest.unwrap_or_default();
        let has_rest = rest.is_some();
        self.parking.stage = Stage::Parked { sockets, since_ms: now_ms, rest };
        if is_kept {
            return Ok(if has_rest { ParkNews::Nothing } else { ParkNews::Parked });
        }
        self.parking.retry_ms = now_ms + RETRY_MS;
        self.wake().map(|()| ParkNews::Nothing)
    }
}

impl Parking {
    /// Pages out one slice of a guest that is parked. True if that was the last.
    pub(super) fn page_out(&mut self) -> bool {
        let Stage::Parked { rest, .. } = &mut self.stage else { return false };
        let Some(Rest { process, slices }) = rest else { return false };
        match slices.next().map(|slice| process.take(&slice)) {
            Some(Ok(())) => return false,
            Some(Err(PageOutError::Refused(error))) => self.refused = Some(error.to_string()),
            Some(Err(PageOutError::Gone)) | None => {}
        }
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
            Stage::Awake => {
                let is_asleep = cpu_percent.is_some_and(|percent| percent < ASLEEP_PERCENT)
                    && !std::mem::take(&mut self.is_used);
                match self.is_due(is_asleep, rule, now_ms) && may_park {
                    true => {
                        self.retry_ms = now_ms + RETRY_MS;
                        ParkWish::Park
                    }
                    false => ParkWish::Nothing,
                }
            }
            Stage::Parked { since_ms, .. } => {
                let parked_ms = now_ms.saturating_sub(since_ms);
                match rule.at_most_ms.is_some_and(|most_ms| parked_ms >= most_ms) {
                    true => ParkWish::Wake,
                    false => ParkWish::Nothing,
                }
            }
            Stage::Stopping { .. } | Stage::Waking { .. } => ParkWish::Nothing,
        }
    }
}

/// What is to be done with a guest, by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkWish {
    Nothing,
    /// It has slept for long: it is parked, if that can be now.
    Park,
    /// It was parked for long.
    Wake,
}

impl Rest {
    /// All memory of a QEMU's own. The error is why the kernel does not take it.
    fn of(qemu: &Process) -> Result<Rest, String> {
        let gone = || "its QEMU is gone".to_owned();
        let words = |error| match error {
            PageOutError::Refused(error) => error.to_string(),
            PageOutError::Gone => gone(),
        };
        let process = ProcessId::of(qemu.id()).ok_or_else(gone)?;
        let process = PageOut::open(process).map_err(words)?;
        let slices = process.slices(&mut Buffer::default()).map_err(words)?.into_iter();
        Ok(Rest { process, slices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_long_enough_is_parked_and_a_load_begins_anew() {
        let rule = ParkRule { after_ms: Some(5_000), ..ParkRule::default() };
        let mut parking = Parking::default();
        let mut wishes =
            |percent, now_ms| parking.tick(percent, rule, true, now_ms) == ParkWish::Park;
        assert!(!wishes(Some(0.1), 1_000));
        assert!(!wishes(Some(0.1), 5_999));
        assert!(wishes(Some(0.1), 6_000));
        assert!(!wishes(Some(0.1), 15_999), "it was refused, and is tried later");
        assert!(wishes(Some(0.1), 16_000));
        assert!(!wishes(Some(2.0), 30_000));
        assert!(!wishes(Some(0.1), 31_000), "counted from here");
        assert!(!wishes(None, 36_000), "what is not known is not sleep");
        assert!(!wishes(Some(0.1), 37_000));
        let waits = parking.tick(Some(0.1), rule, false, 42_000);
        assert_eq!(waits, ParkWish::Nothing, "others are before it");
        assert_eq!(parking.tick(Some(0.1), rule, true, 42_000), ParkWish::Park);
        parking.is_used = true;
        assert_eq!(
            parking.tick(Some(0.1), rule, true, 60_000),
            ParkWish::Nothing,
            "a command runs"
        );
        assert_eq!(parking.tick(Some(0.1), rule, true, 61_000), ParkWish::Nothing);
        assert_eq!(parking.tick(Some(0.1), rule, true, 66_000), ParkWish::Park);
        let never = ParkRule::default();
        assert_eq!(parking.tick(Some(0.0), never, true, u64::MAX), ParkWish::Nothing);
    }

    #[test]
    fn who_is_parked_is_woken_when_it_was_long_enough() {
        let stage = Stage::Parked { sockets: PortSockets::default(), since_ms: 1_000, rest: None };
        let mut parking = Parking { stage, ..Parking::default() };
        let rule = ParkRule { at_most_ms: Some(5_000), ..ParkRule::default() };
        assert_eq!(parking.tick(None, rule, true, 5_999), ParkWish::Nothing);
        assert_eq!(parking.tick(None, rule, true, 6_000), ParkWish::Wake);
        assert_eq!(parking.tick(None, ParkRule::default(), true, 6_000), ParkWish::Nothing);
    }
}
