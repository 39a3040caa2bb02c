//! A pass by other managers' rules. Their orders are carried out, tracked and reported like
//! pinhead's own decisions.

use super::grants;
use super::reason::{Action, Bound, Clause, Inputs};
use super::sample::{Key, Mode};
use super::state::{GuestState, HostBudget};
use crate::rivals::Orders;

/// Turns orders into a size for each guest. The list of refusals is empty, because other managers'
/// rules have no reservations.
pub(super) fn obey(
    states: &mut [GuestState<'_>],
    budget: &mut HostBudget,
    orders: &Orders,
) -> Vec<(Key, Clause)> {
    grants::fixed(states, budget);
    for state in states.iter_mut().filter(|s| s.sample.limits.mode == Mode::Managed) {
        // A balloon that stopped, or was deflated by the guest's kernel, gets the request again.
        state.cap = None;
        state.bounds.clear();
        let actual = state.assessment.actual;
        let is_out = state
            .assessment
            .held
            .is_some_and(|(clause, _)| matches!(clause, Clause::Unusable | Clause::Foreign));
        if is_out || state.sample.actual.is_none() {
            state.to = None;
            continue;
        }
        let order = orders.list.iter().find(|order| order.key == state.sample.key);
        let target = order.map_or(actual, |order| order.target.min(state.sample.most()));
        let action = match target.cmp(&actual) {
            std::cmp::Ordering::Less => Action::Shrink,
            std::cmp::Ordering::Equal => Action::Hold,
            std::cmp::Ordering::Greater => Action::Grow,
        };
        let limits = state.sample.limits;
        match action {
            Action::Shrink if target == limits.min => state.bounds.push(Bound::Min),
            Action::Grow if target == limits.max => state.bounds.push(Bound::Max),
            _ => {}
        }
        state.to = Some((target, action, orders.clause));
    }
    Vec::new()
}

/// Adds the numbers of the other manager's rules to the inputs of a decision.
pub(super) fn note(orders: &Orders, key: Key, inputs: &mut Inputs) {
    inputs.rules_host_permille = orders.host_permille;
    let order = orders.list.iter().find(|order| order.key == key);
    inputs.rules_stall_ms = order.and_then(|order| order.stall_ms);
}
