//! Division of an amount by weight, with a cap for each part.

use super::state::{GuestState, HostBudget};
use base::Bytes;

/// A part in a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Maximum size of the part.
    pub cap: Bytes,
    /// Weight against the other parts; 0 counts as 1.
    pub weight: u64,
}

/// Divides `amount` by weight. A part at its cap leaves the remaining amount to the others. At the
/// end the whole amount is divided, or all parts are at their caps.
pub fn divide(amount: Bytes, parts: &[Part]) -> Vec<Bytes> {
    let mut given = vec![Bytes::ZERO; parts.len()];
    // The part with the smallest ratio of cap to weight is filled first.
    let mut order: Vec<usize> = (0..parts.len()).collect();
    let weight = |i: usize| u128::from(parts[i].weight.max(1));
    order.sort_by(|a, b| {
        let left = u128::from(parts[*a].cap.0) * weight(*b);
        let right = u128::from(parts[*b].cap.0) * weight(*a);
        left.cmp(&right).then(a.cmp(b))
    });
    let mut left = u128::from(amount.0);
    let mut weights: u128 = order.iter().map(|i| weight(*i)).sum();
    for index in order {
        let fair = left * weight(index) / weights.max(1);
        let taken = fair.min(u128::from(parts[index].cap.0));
        given[index] = Bytes(taken as u64);
        left -= taken;
        weights -= weight(index);
    }
    given
}

/// Gives each guest its share of the memory for guests. The memory for guests is their resident
/// memory, and free memory beyond the host's own target.
pub(super) fn entitle(states: &mut [GuestState<'_>], budget: &HostBudget) {
    let held: Bytes = states.iter().map(|state| state.assessment.touched).sum();
    let parts: Vec<Part> = states
        .iter()
        .map(|state| {
            let limits = state.sample.limits;
            Part { cap: limits.max, weight: u64::from(limits.shares) }
        })
        .collect();
    let shares = divide(held.plus(budget.divisible), &parts);
    for (state, share) in states.iter_mut().zip(shares) {
        state.share = share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(list: &[(u64, u64)]) -> Vec<Part> {
        list.iter().map(|(cap, weight)| Part { cap: Bytes(*cap), weight: *weight }).collect()
    }

    fn given(amount: u64, list: &[(u64, u64)]) -> Vec<u64> {
        divide(Bytes(amount), &parts(list)).into_iter().map(|b| b.0).collect()
    }

    #[test]
    fn by_weight_and_what_one_cannot_take_goes_to_the_others() {
        assert_eq!(given(90, &[(100, 1), (100, 2)]), [30, 60]);
        assert_eq!(given(90, &[(10, 1), (100, 1), (100, 1)]), [10, 40, 40]);
        assert_eq!(given(500, &[(10, 1), (20, 7)]), [10, 20]);
        assert_eq!(given(7, &[(100, 0), (100, 0)]), [3, 4]);
        assert_eq!(given(7, &[]), [] as [u64; 0]);
        assert_eq!(given(u64::MAX, &[(u64::MAX, u64::MAX), (1, 1)]), [u64::MAX - 1, 1]);
    }
}
