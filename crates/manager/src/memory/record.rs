//! What is kept of the decisions about a guest.

use crate::effect::{Attention, Effect, GuestEvent};
use hypervisor::Id;
use policy::arbiter::{Clause, Decision, Inputs};
use std::collections::VecDeque;

/// Passes whose numbers are kept, so that rules that look back can be explained.
const RECENT: usize = 8;

/// The last decisions about a guest.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// What was decided last, and when by the wall clock.
    pub last: Option<(Decision, i64)>,
    /// The numbers of the last passes, the newest first.
    pub recent: VecDeque<Inputs>,
    /// Clause that the operator was told of, until something else is decided of it.
    pub told: Option<Clause>,
    /// The operator was told that its memory stays in the host's.
    is_locked_told: bool,
    /// Another manager moves its balloon.
    pub is_foreign: bool,
    /// Its balloon has reported no number since the guest started.
    pub is_mute: bool,
    /// How closely it is watched.
    pub attention: Attention,
}

impl Record {
    /// Keeps the numbers of a pass.
    pub(crate) fn remember(&mut self, inputs: Inputs) {
        self.recent.truncate(RECENT - 1);
        self.recent.push_front(inputs);
    }

    /// True if the operator is to be told why this was decided. A report that comes late between
    /// two decisions for the same reason is no news.
    pub(crate) fn is_news(&mut self, clause: Clause) -> bool {
        match clause {
            Clause::Stuck | Clause::NoYield => self.told.replace(clause) != Some(clause),
            // Another user's process may lock its memory and let it go as often as it likes.
            Clause::Locked => !std::mem::replace(&mut self.is_locked_told, true),
            Clause::Stale | Clause::Unusable => false,
            _ => {
                self.told = None;
                false
            }
        }
    }

    /// Has the guest watched like this from now on, if that is news.
    pub(crate) fn attend(&mut self, guest: Id, attention: Attention) -> Option<Effect> {
        let before = std::mem::replace(&mut self.attention, attention);
        (before != attention).then_some(Effect::Guests(GuestEvent::Attend(guest, attention)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_h14_stuck_balloon_is_told_once_a_try() {
        let mut record = Record::default();
        let clauses = [Clause::Stuck, Clause::Stale, Clause::Stuck, Clause::Need, Clause::Stuck];
        let told = clauses.map(|clause| record.is_news(clause));
        assert_eq!(told, [true, false, false, false, true]);
    }

    #[test]
    fn report_h14_pinned_guest_is_told_once() {
        let mut record = Record::default();
        let clauses = [Clause::Locked, Clause::Unusable, Clause::Locked, Clause::Content];
        let told = clauses.map(|clause| record.is_news(clause));
        assert_eq!(told, [true, false, false, false]);
        assert!(!record.is_news(Clause::Locked), "it may lock its memory again and again");
    }
}
