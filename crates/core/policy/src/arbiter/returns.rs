//! Return of memory that guests gave up without a gain for the host.

use super::reason::Action;
use super::state::{GuestState, MOVE_MIN};

/// Returns memory to guests that gave it up without a gain for the host. The memory is still
/// resident, so the return costs the host nothing.
pub(super) fn returns(states: &mut [GuestState<'_>]) {
    for state in states.iter_mut().filter(|state| state.is_open_and_managed()) {
        let Some((size, clause)) = state.history.balloon.returned(state.sample) else { continue };
        let actual = state.assessment.actual;
        let to = size.min(state.assessment.ceiling);
        if to >= actual.plus(state.history.balloon.going(actual)).plus(MOVE_MIN) {
            state.to = Some((to, Action::Grow, clause));
        }
    }
}
