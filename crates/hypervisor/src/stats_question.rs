//! How a guest's balloon is asked for its statistics, once: a pure machine for every transport.
//!
//! ```text
//!   Idle ─► Period: what is set? ─► Before: what is known? ─► Clear, if a period was set ─► Set
//!     ▲       (if not known)                                    ▲                            │
//!     └── Restore the period ◄── news, or time is up ◄── Poll ──┘ once, after a second ◄─────┘
//! ```
//!
//! There is no command for that. QEMU asks the guest at once when the period of its statistics
//! becomes something else than 0, and again when it has passed since the guest's answer. A period
//! of about a day therefore asks once: an idle guest is woken once for a question, and left alone
//! even if this process dies before it has put the period back.

use crate::BalloonStats;

/// The period that asks once, in seconds. It is an odd one, so that another manager's is not
/// taken for one that a process of ours has left behind.
pub(crate) const MARK_S: u32 = 86_399;
/// What was left behind with such a period is ours too: earlier releases set it through libvirt.
const OLD_MARK_S: u32 = 3_607;
/// A guest that has not answered by then does not answer: its driver is gone, or it hangs.
const PATIENCE_MS: u64 = 2_000;
/// When the guest is asked once more. Statistics carry the second in which they came: an
/// answer in the same second as the one before, and equal to it, looks like none.
const AGAIN_MS: u64 = 1_000;
/// An answer this fresh is given again instead of a new one: it is as good, and costs no wake-up.
const FRESH_MS: u64 = 500;
/// A guest is asked again no sooner than this after an answer, for the same reason as above.
const DISTINCT_MS: u64 = 1_000;

/// When a transport looks for an answer. A guest that runs answers within a millisecond or two;
/// each look doubles the wait for the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LookPace {
    /// How soon after the guest was asked.
    pub(crate) first_ms: u64,
    /// How long between two looks at most.
    pub(crate) most_ms: u64,
}

/// What the transport is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsCall {
    /// Read the period.
    Period,
    /// Read what is known.
    Known,
    /// Set the period.
    SetPeriod(u32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    /// Asked for too soon after the answer before.
    Held,
    Period,
    Before,
    Clear,
    Set,
    /// When to look; `None` while a look is under way.
    Poll(Option<u64>),
    Restore,
}

/// Where the question stands.
#[derive(Debug, Default)]
pub(crate) struct StatsQuestion {
    pace: LookPace,
    phase: Phase,
    /// Whether the call of this phase is still to be made.
    is_wanted: bool,
    began_ms: u64,
    wait_ms: u64,
    is_asked_again: bool,
    /// What was known before.
    before: Option<BalloonStats>,
    /// The last answer, and when it came.
    last: Option<(u64, BalloonStats)>,
    /// The period that the guest has when nobody asks; `None` where it is read for each question.
    home_s: Option<u32>,
    restore_s: u32,
    /// Whether the guest has another period now.
    is_away: bool,
}

impl StatsQuestion {
    /// Nobody asks yet.
    pub(crate) fn new(pace: LookPace) -> StatsQuestion {
        StatsQuestion { pace, ..StatsQuestion::default() }
    }

    /// Takes the period that the guest was found with, where that is known without asking.
    pub(crate) fn found(&mut self, period_s: u32) {
        self.home_s = Some(unmarked(period_s));
        if unmarked(period_s) != period_s {
            // Left behind by one of us that died.
            (self.restore_s, self.is_away) = (0, true);
            self.enter(Phase::Restore);
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.is_wanted = !matches!(phase, Phase::Idle | Phase::Held | Phase::Poll(_));
    }

    /// Begins. Gives what is known already, if that is fresh enough.
    pub(crate) fn begin(&mut self, now_ms: u64) -> Option<BalloonStats> {
        if self.phase != Phase::Idle {
            return None;
        }
        match self.last {
            Some((at_ms, stats)) if now_ms < at_ms + FRESH_MS => return Some(stats),
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

    /// When to call [`due`](Self::due).
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let deadline_ms = self.began_ms + PATIENCE_MS;
        match self.phase {
            Phase::Idle | Phase::Restore => None,
            Phase::Held => self.last.map(|(at_ms, _)| at_ms + DISTINCT_MS),
            Phase::Poll(Some(look_ms)) if !self.is_wanted => Some(look_ms.min(deadline_ms)),
            _ => Some(deadline_ms),
        }
    }

    /// Does what time asks for.
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

    /// The call to be made now.
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

    /// The period was read.
    pub(crate) fn period_is(&mut self, period_s: u32) {
        if self.phase == Phase::Period {
            self.restore_s = unmarked(period_s);
            self.is_away = self.restore_s != period_s;
            self.enter(Phase::Before);
        }
    }

    /// Takes the statistics that were read; `None` where the guest has never sent any. Returns
    /// them if they are an answer.
    pub(crate) fn known(
        &mut self,
        stats: Option<BalloonStats>,
        now_ms: u64,
    ) -> Option<BalloonStats> {
        match self.phase {
            Phase::Before => {
                self.before = stats;
                let is_set = self.restore_s != 0 || self.is_away;
                self.enter(if is_set { Phase::Clear } else { Phase::Set });
                None
            }
            Phase::Poll(_) => {
                // What has come is either later than what was there, or something else.
                if let Some(stats) = stats.filter(|_| stats != self.before) {
                    self.last = Some((now_ms, stats));
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

    /// A period was set. One that was set by a call from before a question was given up is not
    /// the one that is waited for.
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

    /// A call of it failed. Without an answer there is nothing to report.
    pub(crate) fn failed(&mut self) {
        if self.is_wanted {
            // It is the call of a question that was given up since.
        } else if self.phase == Phase::Restore || !self.is_away {
            self.phase = Phase::Idle;
        } else {
            self.enter(Phase::Restore);
        }
    }

    /// The guest does not answer, or the connection is lost: the question is over, and the period
    /// is put back as soon as that can be done.
    pub(crate) fn give_up(&mut self) {
        match self.phase {
            Phase::Idle => {}
            // A period may be set by a call whose answer never came.
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

    /// The guest has started again: its statistics of before are not given again. A question that
    /// waited for their time to pass is over.
    pub(crate) fn forget(&mut self) {
        self.last = None;
        if self.phase == Phase::Held {
            self.give_up();
        }
    }
}

/// The period that a guest had before one of us asked it.
fn unmarked(period_s: u32) -> u32 {
    if matches!(period_s, MARK_S | OLD_MARK_S) { 0 } else { period_s }
}

#[cfg(test)]
mod tests;
