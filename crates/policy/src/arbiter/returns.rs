//! Giving back memory that guests gave in vain.

use super::guest::GuestHistory;
use super::reason::{Action, Clause};
use super::sample::{GuestSample, Mode};
use super::state::{GuestState, MOVE_MIN};
use counters::Bytes;

impl GuestHistory {
    /// The size that costs the host nothing, and why: it has that much of the guest all the same.
    pub(super) fn is_returned(&self, sample: &GuestSample) -> Option<(Bytes, Clause)> {
        let stays = sample.resident?.less(sample.doubtful);
        let (size, clause) = match (sample.pinned, self.balloon.in_vain()) {
            (Some(_), _) => (sample.limits.max, Clause::Locked),
            (None, Some(before)) => (before, Clause::NoYield),
            (None, None) => return None,
        };
        Some((size.min(stays), clause))
    }
}

/// Gives back what guests gave in vain: the host has that of them all the same, and it costs
/// nobody anything.
pub(super) fn returns(states: &mut [GuestState<'_>]) {
    let is_open = |state: &&mut GuestState<'_>| {
        let is_managed = state.sample.limits.mode == Mode::Managed;
        is_managed && state.to.is_none() && state.assessment.held.is_none()
    };
    for state in states.iter_mut().filter(is_open) {
        let Some((size, clause)) = state.history.is_returned(state.sample) else { continue };
        let actual = state.assessment.actual;
        let to = size.min(state.assessment.ceiling);
        if to >= actual.plus(state.history.balloon.going(actual)).plus(MOVE_MIN) {
            state.to = Some((to, Action::Grow, clause));
        }
    }
}
