//! One request for a guest's balloon statistics: a pure state machine for every transport.
//!
//! ```text
//!   Idle ─► Period: what is set? ─► Before: what is known? ─► Clear, if a period was set ─► Set
//!     ▲       (if not known)                                    ▲                            │
//!     └── Restore the period ◄── news, or time is up ◄── Poll ──┘ once, after a second ◄─────┘
//! ```
//!
//! QEMU has no command that requests statistics once. QEMU requests statistics from the guest when
//! the period of requests becomes nonzero, and again one period after the guest's response. A
//! period of about a day therefore makes one request. An idle guest is woken once for this request,
//! and not again, even if this process dies before it has restored the period.

use model::{GuestField, Row};

/// Period that makes QEMU send one request, in seconds. The value is odd, so that a period set by
/// another manager is not mistaken for a period left behind by pinhead.
pub(crate) const MARK_S: u32 = 86_399;
/// Period that earlier releases set through libvirt. A period left behind with this value is also
/// pinhead's.
const OLD_MARK_S: u32 = 3_607;
/// Time after which a guest counts as not responding, because its driver is gone or the guest
/// hangs.
const PATIENCE_MS: u64 = 2_000;
/// Time after which the request is sent once more. Statistics carry the second of their arrival, so
/// a response with equal values in the same second is not recognized as new.
const AGAIN_MS: u64 = 1_000;
/// Age up to which a response is returned again. Such a response is as useful as a new response,
/// and the guest is not woken again.
const FRESH_MS: u64 = 500;
/// Shortest time between a response and the next request. Two responses in the same second could
/// not be distinguished.
const DISTINCT_MS: u64 = 1_000;

/// Timing of the polls for a response. A running guest responds within a millisecond or two. The
/// wait doubles with each poll.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LookPace {
    /// Wait from the request to the first poll.
    pub(crate) first_ms: u64,
    /// Longest wait between two polls.
    pub(crate) most_ms: u64,
}

/// Call that the transport must make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsCall {
    Period,
    /// Read the last statistics.
    Known,
    SetPeriod(u32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    /// The request waits because the last response is too recent.
    Held,
    Period,
    Before,
    Clear,
    Set,
    /// Time of the next poll; `None` while a poll is under way.
    Poll(Option<u64>),
    Restore,
}

/// State of a request for statistics.
#[derive(Debug, Default)]
pub(crate) struct StatsQuestion {
    pace: LookPace,
    phase: Phase,
    /// True if the call of this phase is still to be made.
    is_wanted: bool,
    began_ms: u64,
    wait_ms: u64,
    is_asked_again: bool,
    /// Statistics before the request.
    before: Option<Row<GuestField>>,
    /// Time and content of the last response.
    last: Option<(u64, Row<GuestField>)>,
    /// Period of the guest outside of requests; `None` if it is read for each request.
    home_s: Option<u32>,
    restore_s: u32,
    /// True if the guest's present period is not its period outside of requests.
    is_away: bool,
}

impl StatsQuestion {
    pub(crate) fn new(pace: LookPace) -> StatsQuestion {
        StatsQuestion { pace, ..StatsQuestion::default() }
    }

    /// Stores the period that the guest was found with, if it is known without a request.
    pub(crate) fn found(&mut self, period_s: u32) {
        self.home_s = Some(unmarked(period_s));
        if unmarked(period_s) != period_s {
            // A pinhead process died and left its own period behind.
            (self.restore_s, self.is_away) = (0, true);
            self.enter(Phase::Restore);
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.is_wanted = !matches!(phase, Phase::Idle | Phase::Held | Phase::Poll(_));
    }

    /// Begins a request. Returns the last response instead if it is fresh enough.
    pub(crate) fn begin(&mut self, now_ms: u64) -> Option<Row<GuestField>> {
        if self.phase != Phase::Idle {
            return None;
        }
        match &self.last {
            Some((at_ms, stats)) if now_ms < at_ms + FRESH_MS => return Some(stats.clone()),
            Some((at_ms, _)) if now_ms < at_ms + DISTINCT_MS => self.enter(Phase::Held),
            _ => self.start(now_ms),
        }
        None
    }

    fn start(&mut self, now_ms: u64) {
        (self.began_ms, self.wait_ms, self.is_asked_again) = (now_ms, self.pace.first_ms, false);
        self.restore_s = self.home_s.unwrap_or(0);
        self.enter(if self.home_s.is_some() { Phase::Before } else { Phase::Period });
    }

    /// Returns the time at which [`due`](Self::due) must be called.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let deadline_ms = self.began_ms + PATIENCE_MS;
        match self.phase {
            Phase::Idle | Phase::Restore => None,
            Phase::Held => self.last.as_ref().map(|(at_ms, _)| at_ms + DISTINCT_MS),
            Phase::Poll(Some(look_ms)) if !self.is_wanted => Some(look_ms.min(deadline_ms)),
            _ => Some(deadline_ms),
        }
    }

    pub(crate) fn due(&mut self, now_ms: u64) {
        if self.next_ms().is_none_or(|at_ms| now_ms < at_ms) {
            return;
        }
        match self.phase {
            Phase::Held => self.start(now_ms),
            _ if now_ms >= self.began_ms + PATIENCE_MS => self.give_up(),
            Phase::Poll(_) if now_ms >= self.began_ms + AGAIN_MS && !self.is_asked_again => {
                (self.is_asked_again, self.wait_ms) = (true, self.pace.first_ms);
                self.enter(Phase::Clear);
            }
            _ => self.is_wanted = true,
        }
    }

    pub(crate) fn next(&mut self) -> Option<StatsCall> {
        if !std::mem::take(&mut self.is_wanted) {
            return None;
        }
        match self.phase {
            Phase::Period => Some(StatsCall::Period),
            Phase::Before => Some(StatsCall::Known),
            Phase::Poll(_) => {
                self.phase = Phase::Poll(None);
                Some(StatsCall::Known)
            }
            Phase::Clear => Some(StatsCall::SetPeriod(0)),
            Phase::Set => Some(StatsCall::SetPeriod(MARK_S)),
            Phase::Restore => Some(StatsCall::SetPeriod(self.restore_s)),
            Phase::Idle | Phase::Held => None,
        }
    }

    pub(crate) fn period_is(&mut self, period_s: u32) {
        if self.phase == Phase::Period {
            self.restore_s = unmarked(period_s);
            self.is_away = self.restore_s != period_s;
            self.enter(Phase::Before);
        }
    }

    /// Handles the statistics that were read. The statistics are `None` if the guest has never sent
    /// any. Returns the statistics if they are a response to this request.
    pub(crate) fn known(
        &mut self,
        stats: Option<Row<GuestField>>,
        now_ms: u64,
    ) -> Option<Row<GuestField>> {
        match self.phase {
            Phase::Before => {
                self.before = stats;
                let is_set = self.restore_s != 0 || self.is_away;
                self.enter(if is_set { Phase::Clear } else { Phase::Set });
                None
            }
            Phase::Poll(_) => {
                // A response differs from the earlier statistics, at least in its time.
                if let Some(stats) = stats.filter(|stats| Some(stats) != self.before.as_ref()) {
                    self.last = Some((now_ms, stats.clone()));
                    self.enter(Phase::Restore);
                    return Some(stats);
                }
                self.wait_ms = (self.wait_ms * 2).min(self.pace.most_ms);
                self.enter(Phase::Poll(Some(now_ms + self.wait_ms)));
                None
            }
            _ => None,
        }
    }

    /// Notes that a period was set. A period from a call of an abandoned request is ignored.
    pub(crate) fn period_is_set(&mut self, period_s: u32, now_ms: u64) {
        match self.phase {
            Phase::Clear if period_s == 0 => {
                self.is_away = true;
                self.enter(Phase::Set);
            }
            Phase::Set if period_s == MARK_S => {
                self.is_away = true;
                self.enter(Phase::Poll(Some(now_ms + self.wait_ms)));
            }
            Phase::Restore if period_s == self.restore_s && !self.is_wanted => {
                self.is_away = false;
                self.phase = Phase::Idle;
            }
            _ => {}
        }
    }

    /// Notes that a call failed.
    pub(crate) fn failed(&mut self) {
        if self.is_wanted {
            // The failed call belongs to an abandoned request.
        } else if self.phase == Phase::Restore || !self.is_away {
            self.phase = Phase::Idle;
        } else {
            self.enter(Phase::Restore);
        }
    }

    /// Ends the request because the guest does not respond or the connection is lost. The period is
    /// restored as soon as possible.
    pub(crate) fn give_up(&mut self) {
        match self.phase {
            Phase::Idle => {}
            // A call without a reply may have set a period.
            Phase::Clear | Phase::Set | Phase::Poll(_) | Phase::Restore => {
                self.is_away = true;
                self.enter(Phase::Restore);
            }
            Phase::Held | Phase::Period | Phase::Before if self.is_away => {
                self.enter(Phase::Restore);
            }
            Phase::Held | Phase::Period | Phase::Before => self.enter(Phase::Idle),
        }
    }

    /// Drops the statistics from before a reboot. Also ends a request that is held because these
    /// statistics are too recent.
    pub(crate) fn forget(&mut self) {
        self.last = None;
        if self.phase == Phase::Held {
            self.give_up();
        }
    }
}

/// Returns the period that a guest had before pinhead changed it.
fn unmarked(period_s: u32) -> u32 {
    if matches!(period_s, MARK_S | OLD_MARK_S) { 0 } else { period_s }
}

#[cfg(test)]
mod tests;
