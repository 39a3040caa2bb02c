//! How a guest is asked for its memory's statistics, once.
//!
//! There is no call for that. QEMU asks the guest when a period is set where there was none, and
//! then once a period; what it knows is read by another call, with the second in which the guest
//! told it.
//!
//! ```text
//!   Idle ─► Before: read what is known ─► Clear, if a period was set ─► Set a period
//!     ▲                                                                       │
//!     └── Restore the period ◄── something newer is known, or time is up ◄── Poll
//! ```
//!
//! The period that is set is so long that it never comes round: an idle guest is woken once for a
//! question, and stays asleep even if this process dies in the middle of it.

use virtrpc::MemoryStat;

use super::guest::Ask;
use super::numbers::updated_s;

/// The period that makes QEMU ask at once. An hour and seven seconds is nobody's choice, so that
/// one that was left behind is known for what it is.
pub(super) const MARK_SECONDS: i32 = 3607;

/// How long a guest has for its answer. One that is busy answers within milliseconds.
const PATIENCE_MS: u64 = 2_000;

/// How long after the question its answer is first looked for; later looks are twice as far away.
const FIRST_LOOK_MS: u64 = 40;

/// An answer this fresh is given again instead of a new one.
const FRESH_MS: u64 = 500;

/// Answers carry whole seconds. A guest is asked again no sooner than this after an answer, or
/// the next one might not be told from it.
const DISTINCT_MS: u64 = 1_100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    /// Asked for too soon after the answer before.
    Held,
    Before,
    Clear,
    Set,
    Poll {
        asked_ms: u64,
        look_ms: u64,
    },
    Restore,
}

/// Where the question stands.
#[derive(Debug, Default)]
pub(super) struct Asking {
    phase: Phase,
    /// Whether the call of this phase is still to be made.
    is_wanted: bool,
    /// The second of what was known before.
    before_s: Option<u64>,
    /// What was told last, and when.
    last: Option<(u64, Vec<MemoryStat>)>,
    /// The period that the guest has when nobody asks.
    home_seconds: i32,
    /// Whether it has another one now.
    is_away: bool,
}

impl Asking {
    /// Says what period the guest was found with.
    pub(super) fn found(&mut self, period_seconds: i32) {
        self.home_seconds = period_seconds;
        if period_seconds == MARK_SECONDS {
            // Left behind by one of us that died.
            self.home_seconds = 0;
            self.is_away = true;
            self.enter(Phase::Restore);
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.is_wanted = matches!(
            phase,
            Phase::Before | Phase::Clear | Phase::Set | Phase::Poll { .. } | Phase::Restore
        );
    }

    /// Begins. Gives what is known already, if that is fresh enough.
    pub(super) fn begin(&mut self, now_ms: u64) -> Option<Vec<MemoryStat>> {
        if self.phase != Phase::Idle {
            return None;
        }
        match &self.last {
            Some((at_ms, list)) if now_ms < at_ms + FRESH_MS => return Some(list.clone()),
            Some((at_ms, _)) if now_ms < at_ms + DISTINCT_MS => self.enter(Phase::Held),
            _ => self.enter(Phase::Before),
        }
        None
    }

    /// When to call [`due`](Self::due).
    pub(super) fn next_ms(&self) -> Option<u64> {
        match self.phase {
            Phase::Held => self.last.as_ref().map(|(at_ms, _)| at_ms + DISTINCT_MS),
            Phase::Poll { look_ms, .. } if !self.is_wanted => Some(look_ms),
            _ => None,
        }
    }

    /// The time has come.
    pub(super) fn due(&mut self) {
        match self.phase {
            Phase::Held => self.enter(Phase::Before),
            Phase::Poll { .. } => self.is_wanted = true,
            _ => {}
        }
    }

    /// The call to be made now.
    pub(super) fn next(&mut self) -> Option<Ask> {
        if !std::mem::take(&mut self.is_wanted) {
            return None;
        }
        match self.phase {
            Phase::Before | Phase::Poll { .. } => Some(Ask::Stats),
            Phase::Clear => Some(Ask::Period(0)),
            Phase::Set => Some(Ask::Period(MARK_SECONDS)),
            Phase::Restore => Some(Ask::Period(self.home_seconds)),
            Phase::Idle | Phase::Held => None,
        }
    }

    /// What is known has come. Gives it if it is an answer.
    pub(super) fn take_stats(
        &mut self,
        list: Vec<MemoryStat>,
        now_ms: u64,
    ) -> Option<Vec<MemoryStat>> {
        match self.phase {
            Phase::Before => {
                self.before_s = updated_s(&list);
                self.enter(if self.home_seconds == 0 { Phase::Set } else { Phase::Clear });
                None
            }
            Phase::Poll { asked_ms, look_ms } => {
                if updated_s(&list) > self.before_s {
                    self.last = Some((now_ms, list.clone()));
                    self.enter(Phase::Restore);
                    return Some(list);
                }
                if now_ms >= asked_ms + PATIENCE_MS {
                    self.enter(Phase::Restore);
                } else {
                    let next = look_ms + look_ms.saturating_sub(asked_ms).max(FIRST_LOOK_MS);
                    let look_ms = next.min(asked_ms + PATIENCE_MS).max(now_ms);
                    self.phase = Phase::Poll { asked_ms, look_ms };
                }
                None
            }
            _ => None,
        }
    }

    /// A period was set. One that was set by a call from before a question was given up is not
    /// the one that is waited for.
    pub(super) fn period_is_set(&mut self, period_seconds: i32, now_ms: u64) {
        match self.phase {
            Phase::Clear if period_seconds == 0 => {
                self.is_away = true;
                self.enter(Phase::Set);
            }
            Phase::Set if period_seconds == MARK_SECONDS => {
                self.is_away = true;
                let look_ms = now_ms + FIRST_LOOK_MS;
                self.phase = Phase::Poll { asked_ms: now_ms, look_ms };
            }
            Phase::Restore if period_seconds == self.home_seconds && !self.is_wanted => {
                self.is_away = false;
                self.phase = Phase::Idle;
            }
            _ => {}
        }
    }

    /// A call of it failed. Without an answer there is nothing to tell.
    pub(super) fn failed(&mut self) {
        if self.is_wanted {
            // It is the call of a question that was given up since.
        } else if self.phase == Phase::Restore || !self.is_away {
            self.phase = Phase::Idle;
        } else {
            self.enter(Phase::Restore);
        }
    }

    /// The guest does not answer, runs anew, or the connection is lost: the question is over,
    /// and the period is put back as soon as that can be done.
    pub(super) fn give_up(&mut self) {
        match self.phase {
            Phase::Idle => {}
            // A period may be set by a call whose answer never came.
            Phase::Clear | Phase::Set | Phase::Poll { .. } | Phase::Restore => {
                self.is_away = true;
                self.enter(Phase::Restore);
            }
            Phase::Held | Phase::Before if self.is_away => self.enter(Phase::Restore),
            Phase::Held | Phase::Before => self.enter(Phase::Idle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(second: u64) -> Vec<MemoryStat> {
        vec![MemoryStat { tag: 9, value: second }]
    }

    /// Asks once from nothing, with the answer at the second look.
    fn ask_once(asking: &mut Asking, now_ms: u64, second: u64) {
        assert_eq!(asking.begin(now_ms), None);
        assert_eq!(asking.next(), Some(Ask::Stats));
        assert_eq!(asking.next(), None, "one call at a time");
        assert_eq!(asking.take_stats(known(second - 1), now_ms), None);
        if asking.home_seconds != 0 {
            assert_eq!(asking.next(), Some(Ask::Period(0)));
            asking.period_is_set(0, now_ms);
        }
        assert_eq!(asking.next(), Some(Ask::Period(MARK_SECONDS)));
        asking.period_is_set(MARK_SECONDS, now_ms);
        assert_eq!(asking.next_ms(), Some(now_ms + 40));
        asking.due();
        assert_eq!(asking.next(), Some(Ask::Stats));
        assert_eq!(asking.take_stats(known(second - 1), now_ms + 40), None);
        assert_eq!(asking.next_ms(), Some(now_ms + 80));
        asking.due();
        assert_eq!(asking.next(), Some(Ask::Stats));
        assert_eq!(asking.take_stats(known(second), now_ms + 80), Some(known(second)));
        assert_eq!(asking.next(), Some(Ask::Period(asking.home_seconds)));
        asking.period_is_set(asking.home_seconds, now_ms + 81);
        assert_eq!((asking.next(), asking.next_ms(), asking.is_away), (None, None, false));
    }

    #[test]
    fn an_answer_is_told_once_and_the_period_is_put_back() {
        for home in [0, 10] {
            let mut asking = Asking::default();
            asking.found(home);
            ask_once(&mut asking, 1_000, 50);
            ask_once(&mut asking, 9_000, 60);
        }
    }

    #[test]
    fn what_is_fresh_is_given_again_and_a_guest_is_not_asked_twice_in_a_second() {
        let mut asking = Asking::default();
        ask_once(&mut asking, 1_000, 50);
        assert_eq!(asking.begin(1_300), Some(known(50)));
        assert_eq!(asking.begin(1_900), None);
        assert_eq!((asking.next(), asking.next_ms()), (None, Some(2_180)));
        asking.due();
        assert_eq!(asking.next(), Some(Ask::Stats));
    }

    #[test]
    fn a_guest_that_does_not_answer_is_left_as_it_was() {
        let mut asking = Asking::default();
        assert_eq!(asking.begin(0), None);
        assert_eq!(asking.next(), Some(Ask::Stats));
        asking.take_stats(known(5), 0);
        assert_eq!(asking.next(), Some(Ask::Period(MARK_SECONDS)));
        asking.period_is_set(MARK_SECONDS, 0);
        let mut looks = 0;
        while let Some(at_ms) = asking.next_ms() {
            asking.due();
            assert_eq!(asking.next(), Some(Ask::Stats));
            assert_eq!(asking.take_stats(known(5), at_ms), None);
            looks += 1;
        }
        assert!((4..=10).contains(&looks), "{looks}");
        assert_eq!(asking.next(), Some(Ask::Period(0)));
    }

    #[test]
    fn a_period_that_may_be_set_is_put_back_whatever_happens() {
        let mut asking = Asking::default();
        asking.begin(0);
        asking.next();
        asking.give_up();
        assert_eq!(asking.next(), None, "nothing was set");
        asking.begin(0);
        asking.next();
        asking.take_stats(known(5), 0);
        assert_eq!(asking.next(), Some(Ask::Period(MARK_SECONDS)));
        asking.give_up();
        asking.failed();
        asking.period_is_set(MARK_SECONDS, 0);
        assert_eq!(asking.next(), Some(Ask::Period(0)), "whatever becomes of the call before");
        asking.failed();
        assert_eq!(asking.next(), None, "what cannot be put back is not tried for ever");
        // One that a manager before us left.
        let mut asking = Asking::default();
        asking.found(MARK_SECONDS);
        assert_eq!(asking.next(), Some(Ask::Period(0)));
    }
}
