//! Return of memory that guests gave up without a gain for the host.

use super::reason::Action;
use super::sample::Mode;
use super::state::{GuestState, MOVE_MIN};

/// Returns memory to guests that gave it up without a gain for the host. The memory is still
/// resident, so the return costs the host nothing.
pub(super) fn returns(states: &mut [GuestState<'_>]) {
    let is_open = |state: &&mut GuestState<'_>| {
        let is_managed = state.sample.limits.mode == Mode::Managed;
        is_managed && state.to.is_none() && state.assessment.held.is_none()
    };
    for state in states.iter_mut().filter(is_open) {
        let Some((size, clause)) = state.history.balloon.returned(state.sample) else { continue };
        let actual = state.assessment.actual;
        let to = size.min(state.assessment.ceiling);
        if to >= actual.plus(state.history.balloon.going(actual)).plus(MOVE_MIN) {
            state.to = Some((to, Action::Grow, clause));
        }
    }
}
