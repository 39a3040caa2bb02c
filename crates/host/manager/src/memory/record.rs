//! Record of the decisions about a guest.

use crate::effect::{Attention, Effect, GuestEvent};
use hypervisor::Id;
use policy::arbiter::{Clause, Decision, Inputs};
use std::collections::VecDeque;

/// Number of passes with stored inputs, so that rules over several passes can be explained.
const RECENT: usize = 8;

/// The last decisions about a guest.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Last decision, and its time by the wall clock.
    pub last: Option<(Decision, i64)>,
    /// Inputs of the last passes, newest first.
    pub recent: VecDeque<Inputs>,
    /// Last clause reported to the operator, until a decision has another clause.
    pub told: Option<Clause>,
    /// True once the guest's pinned memory was reported to the operator.
    is_locked_told: bool,
    /// True while another manager moves the balloon.
    pub is_foreign: bool,
    /// True if the balloon has reported no number since the guest's start.
    pub is_mute: bool,
    /// Reasons for a close watch of the guest.
    pub attention: Attention,
}

impl Record {
    pub(crate) fn remember(&mut self, inputs: Inputs) {
        self.recent.truncate(RECENT - 1);
        self.recent.push_front(inputs);
    }

    /// Returns true if the reason for a decision must be reported to the operator. A late sample
    /// between two decisions for the same reason does not cause a second report.
    pub(crate) fn is_news(&mut self, clause: Clause) -> bool {
        match clause {
            Clause::Stuck | Clause::NoYield => self.told.replace(clause) != Some(clause),
            // Another user's process may lock and unlock its memory any number of times.
            Clause::Locked => !std::mem::replace(&mut self.is_locked_told, true),
            Clause::Stale | Clause::Unusable => false,
            _ => {
                self.told = None;
                false
            }
        }
    }

    /// Sets the reasons for a close watch. Returns an effect if they have changed.
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
        assert!(!record.is_news(Clause::Locked), "repeated locking is reported once");
    }
}
