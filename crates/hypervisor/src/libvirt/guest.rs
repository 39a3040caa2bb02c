//! One domain: its description and state, and the next question to it.
//!
//! A domain whose hypervisor hangs holds each call that reaches the hypervisor forever, and
//! libvirt serves five calls of a client at once. So a guest has one call open at most, and one
//! that has not answered is only asked by the call that does not reach its hypervisor.

use counters::Bytes;
use virtrpc::{Call, Domain};

use super::describe::Description;
use crate::ram::RamPace;
use crate::stats_question::{LookPace, StatsCall, StatsQuestion};
use crate::{BALLOON_MIN, Id, ProcessId, RunState};

/// How long after a guest has not answered it is looked at again.
pub(super) const PROBE_MS: u64 = 2_000;
/// A look is a call to libvirt's daemon, which serves five of a client at once: those of all its
/// guests, and it asks QEMU only when it gets to it.
const PACE: LookPace = LookPace { first_ms: 40, most_ms: 640 };

/// A description is asked for again so often: it may name a port that was attached since.
const DEVICES_MS: u64 = 60_000;
/// The same where what libvirt tells of its memory has changed.
pub(super) const CHANGED_MS: u64 = 10_000;

/// What a guest's call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Xml,
    Configured,
    State,
    Info,
    Control,
    Target(Bytes),
    Running(bool),
    Period(u32),
    Stats,
}

/// The way that a domain came, where that was seen and it was not booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// From another host, or back to a snapshot: with what its configuration has for it.
    Moved,
    /// From a saved state: with what it had when it went.
    Restored,
}

/// The questions that wait, without those for statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    pub(super) xml: bool,
    pub(super) state: bool,
    pub(super) info: bool,
    pub(super) control: bool,
    pub(super) configured: bool,
    /// The newest target; those before it are not asked for any more.
    pub(super) target: Option<Bytes>,
    /// Whether its virtual CPUs are to run.
    pub(super) running: Option<bool>,
}

/// Whether a guest can be spoken to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Whether the manager believes so.
    pub(super) answers: bool,
    /// Whether its hypervisor was seen not to answer, on this connection or one before.
    pub(super) is_stuck: bool,
    /// This connection has named it by its number. Calls name it by its UUID alone, which a domain
    /// has that was started after it.
    pub(super) is_known: bool,
}

/// Where a guest stands among the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// In the queue of those that want something.
    pub(super) is_queued: bool,
    /// Among the timers, under this time.
    pub(super) armed_ms: Option<u64>,
    /// When its description was asked for last.
    pub(super) described_ms: u64,
    /// Since then libvirt has told of other memory.
    pub(super) is_stale: bool,
    pub(super) ram_pace: RamPace,
    /// Its configuration is still to be asked for.
    pub(super) came: Option<Came>,
}

/// A domain that runs, or did when it was last seen.
#[derive(Debug)]
pub(super) struct LibvirtGuest {
    pub(super) id: Id,
    pub(super) domain: Domain,
    /// When it was first seen.
    pub(super) since_ms: u64,
    pub(super) description: Option<Description>,
    pub(super) state: Option<RunState>,
    pub(super) actual: Option<Bytes>,
    pub(super) process: Option<ProcessId>,
    /// Whether the manager knows it.
    pub(super) is_reported: bool,
    /// Whether it is left alone, since its description cannot be read.
    pub(super) is_ignored: bool,
    pub(super) reach: Reach,
    pub(super) wants: Wants,
    pub(super) question: StatsQuestion,
    /// Whether a call of it is open.
    pub(super) is_open: bool,
    /// When to look at it again, apart from its statistics.
    pub(super) due_ms: Option<u64>,
    pub(super) turn: Turn,
}

impl LibvirtGuest {
    pub(super) fn new(id: Id, domain: Domain, came: Option<Came>, now_ms: u64) -> LibvirtGuest {
        let wants = Wants { xml: true, state: true, info: true, ..Wants::default() };
        LibvirtGuest {
            id,
            domain,
            since_ms: now_ms,
            description: None,
            state: None,
            actual: None,
            process: None,
            is_reported: false,
            is_ignored: false,
            reach: Reach { answers: true, is_stuck: false, is_known: true },
            wants,
            question: StatsQuestion::new(PACE),
            is_open: false,
            due_ms: None,
            turn: Turn { described_ms: now_ms, came, ..Turn::default() },
        }
    }

    /// Whether it is the domain that a list or an event names, and not one that was started
    /// after it.
    pub(super) fn is_same(&self, domain: &Domain) -> bool {
        self.domain.id == domain.id && self.process.is_none_or(ProcessId::is_alive)
    }

    /// Whether it can be asked for statistics now: one that is paused would never answer.
    pub(super) fn can_report_stats(&self) -> bool {
        let can = self.description.as_ref().is_some_and(|it| it.can.statistics);
        can && self.is_reported && self.reach.answers && self.state == Some(RunState::Running)
    }

    /// Wants its description again when its time has come.
    pub(super) fn describe_in_time(&mut self, now_ms: u64) {
        let wait_ms = if self.turn.is_stale { CHANGED_MS } else { DEVICES_MS };
        if now_ms.saturating_sub(self.turn.described_ms) >= wait_ms {
            (self.turn.described_ms, self.turn.is_stale) = (now_ms, false);
            self.wants.xml = true;
        }
    }

    /// Wants its configuration when it is all there, until it is answered: a domain that moves gets
    /// it last.
    pub(super) fn look_at_configuration(&mut self) {
        let moves = self.state.is_none_or(|state| state == RunState::Migrating);
        self.wants.configured = self.is_reported && !moves && self.turn.came.is_some();
    }

    /// Notices that its description may not be true any more.
    pub(super) fn has_changed(&mut self, now_ms: u64) {
        self.turn.is_stale = true;
        self.describe_in_time(now_ms);
    }

    /// The next call, and what it is for.
    pub(super) fn next_call(&mut self) -> Option<(Ask, Call)> {
        if self.is_open || self.is_ignored {
            return None;
        }
        let domain = || self.domain.clone();
        if self.reach.is_stuck {
            let wanted = std::mem::take(&mut self.wants.control);
            return wanted.then(|| (Ask::Control, Call::Control(domain())));
        }
        if std::mem::take(&mut self.wants.xml) {
            return Some((Ask::Xml, Call::Xml(domain())));
        }
        if !self.reach.is_known {
            return None;
        }
        if std::mem::take(&mut self.wants.state) {
            return Some((Ask::State, Call::State(domain())));
        }
        if std::mem::take(&mut self.wants.info) {
            return Some((Ask::Info, Call::Info(domain())));
        }
        if std::mem::take(&mut self.wants.configured) {
            return Some((Ask::Configured, Call::ConfiguredXml(domain())));
        }
        if let Some(runs) = self.wants.running.take() {
            let call = if runs { Call::Resume(domain()) } else { Call::Suspend(domain()) };
            return Some((Ask::Running(runs), call));
        }
        if let Some(target) = self.wants.target.take() {
            let beside = self.description.as_ref().map_or(Bytes::ZERO, |it| it.beside);
            // Rounded up: a target may be a floor.
            let memory_kib = target.less(beside).max(BALLOON_MIN).0.div_ceil(1024);
            let call = Call::SetMemory { domain: domain(), memory_kib };
            return Some((Ask::Target(target), call));
        }
        match self.question.next()? {
            StatsCall::SetPeriod(period_s) => {
                let period_seconds = i32::try_from(period_s).unwrap_or(i32::MAX);
                let call = Call::SetStatsPeriod { domain: domain(), period_seconds };
                Some((Ask::Period(period_s), call))
            }
            // The period is in the description, which is read before anything is asked.
            StatsCall::Known | StatsCall::Period => Some((Ask::Stats, Call::MemoryStats(domain()))),
        }
    }

    /// When to look at it again.
    pub(super) fn next_ms(&self) -> Option<u64> {
        [self.due_ms, self.question.next_ms()].into_iter().flatten().min()
    }
}
