//! State of one domain, and the choice of the next request to it.
//!
//! A call that reaches a hung hypervisor blocks forever, and libvirt serves only five calls per
//! client at once. Therefore a guest has at most one open call. A guest that has stopped responding
//! only gets the call that does not reach its hypervisor.

use base::Bytes;
use virtrpc::{Call, Domain};

use super::describe::Description;
use crate::ram::RamPace;
use crate::stats_question::{LookPace, StatsCall, StatsQuestion};
use crate::{BALLOON_MIN, Id, ProcessId, RunState};

/// Wait before a guest that did not respond is probed again.
pub(super) const PROBE_MS: u64 = 2_000;
/// Pace of polls for statistics. Each poll is a call to libvirt's daemon, which queries QEMU when
/// the turn of the call comes. The daemon serves five calls of a client at once, over all guests.
const PACE: LookPace = LookPace { first_ms: 40, most_ms: 640 };

/// Interval between two requests for a description, which find a newly attached port.
const DEVICES_MS: u64 = 60_000;
/// Interval between two requests for a description once libvirt has reported a change of memory.
pub(super) const CHANGED_MS: u64 = 10_000;

/// Purpose of a call for a guest.
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

/// Reason why a domain runs without a boot on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// The domain came from another host, or went back to a snapshot. Its memory is as configured.
    Moved,
    /// The domain came from a saved state, with its memory at the time of the save.
    Restored,
}

/// Pending requests, except requests for statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    pub(super) xml: bool,
    pub(super) state: bool,
    pub(super) info: bool,
    pub(super) control: bool,
    pub(super) configured: bool,
    /// The newest target. It replaces older pending targets.
    pub(super) target: Option<Bytes>,
    /// True to run the vCPUs, false to pause them.
    pub(super) running: Option<bool>,
}

/// Reachability of a guest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// True if the guest counts as responding in the reports to the manager.
    pub(super) answers: bool,
    /// True if the hypervisor failed to respond, on this or an earlier connection.
    pub(super) is_stuck: bool,
    /// True if this connection has listed the guest by its number. Calls contain only the UUID, and
    /// a domain that was started later may have the same UUID.
    pub(super) is_known: bool,
}

/// Place of a guest in the queues.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// True if the guest is in the queue of guests with pending requests.
    pub(super) is_queued: bool,
    /// Time of the guest's entry among the timers.
    pub(super) armed_ms: Option<u64>,
    /// Time of the last request for the description.
    pub(super) described_ms: u64,
    /// True if libvirt has reported another memory size since the last request.
    pub(super) is_stale: bool,
    pub(super) ram_pace: RamPace,
    /// Arrival of the guest, while its configuration is still to be read.
    pub(super) came: Option<Came>,
}

/// A domain that runs, or ran when it was last checked.
#[derive(Debug)]
pub(super) struct LibvirtGuest {
    pub(super) id: Id,
    pub(super) domain: Domain,
    /// Time at which the domain was first listed or reported.
    pub(super) since_ms: u64,
    pub(super) description: Option<Description>,
    pub(super) state: Option<RunState>,
    pub(super) actual: Option<Bytes>,
    pub(super) process: Option<ProcessId>,
    pub(super) is_reported: bool,
    /// Message about a description that cannot be read. The guest is then ignored.
    pub(super) ignored: Option<String>,
    pub(super) reach: Reach,
    pub(super) wants: Wants,
    pub(super) question: StatsQuestion,
    /// True while a call is open.
    pub(super) is_open: bool,
    /// Time of the next check, apart from statistics.
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
            ignored: None,
            reach: Reach { answers: true, is_stuck: false, is_known: true },
            wants,
            question: StatsQuestion::new(PACE),
            is_open: false,
            due_ms: None,
            turn: Turn { described_ms: now_ms, came, ..Turn::default() },
        }
    }

    /// Returns true if a list or an event refers to this domain, and not to a domain started later
    /// with the same UUID.
    pub(super) fn is_same(&self, domain: &Domain) -> bool {
        self.domain.id == domain.id && self.process.is_none_or(ProcessId::is_alive)
    }

    /// Returns true if a request for statistics is useful now. A paused guest would never respond.
    pub(super) fn can_report_stats(&self) -> bool {
        let can = self.description.as_ref().is_some_and(|it| it.can.statistics);
        can && self.is_reported && self.reach.answers && self.state == Some(RunState::Running)
    }

    /// Requests the description again once its interval is over.
    pub(super) fn describe_in_time(&mut self, now_ms: u64) {
        let wait_ms = if self.turn.is_stale { CHANGED_MS } else { DEVICES_MS };
        if now_ms.saturating_sub(self.turn.described_ms) >= wait_ms {
            (self.turn.described_ms, self.turn.is_stale) = (now_ms, false);
            self.wants.xml = true;
        }
    }

    /// Requests the configuration of a domain that has fully arrived, until the configuration is
    /// read. A migrating domain receives its configuration last.
    pub(super) fn look_at_configuration(&mut self) {
        let moves = self.state.is_none_or(|state| state == RunState::Migrating);
        self.wants.configured = self.is_reported && !moves && self.turn.came.is_some();
    }

    pub(super) fn has_changed(&mut self, now_ms: u64) {
        self.turn.is_stale = true;
        self.describe_in_time(now_ms);
    }

    /// Returns the next call and its purpose.
    pub(super) fn next_call(&mut self) -> Option<(Ask, Call)> {
        if self.is_open || self.ignored.is_some() {
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
            // The size is rounded up, because a target may be a lower limit.
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
            // The period is part of the description, which is read before any request.
            StatsCall::Known | StatsCall::Period => Some((Ask::Stats, Call::MemoryStats(domain()))),
        }
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        [self.due_ms, self.question.next_ms()].into_iter().flatten().min()
    }
}
