//! Grants of memory. Needs are met from all free memory above the reserve, wishes only from the
//! host's surplus.

use super::reason::{Action, Bound, Clause};
use super::regime::Urgency;
use super::sample::{Config, Mode};
use super::share::{Part, divide};
use super::state::{GuestState, HostBudget, MOVE_MIN};
use base::Bytes;

/// A request: the guest's index, the amount and the clause.
type Ask = (usize, Bytes, Clause);

/// Grants memory for needs from free memory. Other guests have to give up the missing memory.
pub(super) fn needs(states: &mut [GuestState<'_>], budget: &mut HostBudget, config: &Config) {
    fixed(states, budget);
    let mut asks: Vec<Ask> = states
        .iter()
        .enumerate()
        .filter(|(_, state)| state.is_open())
        .filter_map(|(index, state)| {
            // A request of the guest's own rules for more than its size counts as a need.
            let asked = state.sample.request.map_or(Bytes::ZERO, |request| {
                let wanted = request.min(state.assessment.ceiling);
                wanted.less(
                    state
                        .assessment
                        .actual
                        .plus(state.history.balloon.going(state.assessment.actual)),
                )
            });
            let managed = state.sample.limits.mode == Mode::Managed;
            let asked = if state.sample.asks && managed { asked } else { Bytes::ZERO };
            let asked = asked.min(state.assessment.backed);
            let need = state.assessment.need.size;
            match state.assessment.need.why {
                Some(clause) if need >= asked && need > Bytes::ZERO => Some((index, need, clause)),
                _ if asked > Bytes::ZERO => Some((index, asked, Clause::Request)),
                _ => None,
            }
        })
        .collect();
    bursts(states, &mut asks, budget, config);
    let parts: Vec<Part> = asks.iter().map(|(at, need, _)| part(&states[*at], *need)).collect();
    // A grant turns a release that is on its way into a promise.
    let released: Bytes = asks.iter().map(|(at, ..)| released(&states[*at])).sum();
    let given = divide(budget.free.less(released), &parts);
    for ((index, need, clause), size) in asks.into_iter().zip(given) {
        let state = &mut states[index];
        budget.unmet = budget.unmet.plus(need.less(size));
        if size < need {
            state.bounds.push(if size > Bytes::ZERO { Bound::Shares } else { Bound::Host });
        }
        // An amount too small for a move waits until more memory is free.
        if size < MOVE_MIN.min(need) {
            continue;
        }
        grant(state, budget, size, clause);
        let is_at_most = state.to.is_some_and(|(to, ..)| to >= state.assessment.ceiling);
        if is_at_most && !state.assessment.lacks_group {
            state.bounds.push(Bound::Max);
        }
    }
}

/// Grants a waiting guest more than its reported lack, if the host has a surplus after all
/// requests. A burst is then served in one step instead of many.
fn bursts(states: &mut [GuestState<'_>], asks: &mut [Ask], budget: &HostBudget, config: &Config) {
    let asked: Bytes = asks.iter().map(|(_, need, _)| *need).sum();
    let surplus = budget.beyond.less(config.hysteresis.plus(asked));
    let beyond = |(at, need, clause): &Ask| match clause {
        Clause::Need => part(&states[*at], states[*at].assessment.need.most.less(*need)),
        _ => part(&states[*at], Bytes::ZERO),
    };
    let parts: Vec<Part> = asks.iter().map(beyond).collect();
    for ((at, need, clause), more) in asks.iter_mut().zip(divide(surplus, &parts)) {
        *need = need.plus(more);
        if *clause == Clause::Need {
            states[*at].assessment.need.size = *need;
        }
    }
}

/// Returns a guest's part in a division by shares, up to `cap`.
fn part(state: &GuestState<'_>, cap: Bytes) -> Part {
    Part { cap, weight: u64::from(state.sample.limits.shares) }
}

/// Grants memory to booting guests, which cannot report a need, up to the host's surplus above its
/// set point. QEMU still has the target from before the restart, and the guest's driver would move
/// to that target. The first command is therefore always sent.
pub(super) fn boots(states: &mut [GuestState<'_>], budget: &mut HostBudget, now_ms: u64) {
    let lacks = |state: &GuestState<'_>| {
        let is_booting = matches!(state.assessment.held, Some((Clause::Boot, _)));
        let (had, _) = state.history.boots(now_ms).filter(|_| is_booting)?;
        Some(state.sample.most().less(had))
    };
    let (indices, parts): (Vec<usize>, Vec<Part>) = states
        .iter()
        .enumerate()
        .filter_map(|(index, state)| Some((index, part(state, lacks(state)?))))
        .unzip();
    let given = divide(budget.beyond.min(budget.free), &parts);
    for (index, size) in indices.into_iter().zip(given) {
        let state = &mut states[index];
        let Some((had, begins)) = state.history.boots(now_ms) else { continue };
        let actual = state.assessment.actual;
        let base = actual.plus(state.history.balloon.going(actual));
        let wanted = had.plus(size);
        if wanted >= base.plus(MOVE_MIN) {
            grant(state, budget, wanted.less(base), Clause::Boot);
        } else if begins && wanted >= actual {
            // The balloon is empty, and the guest keeps the part that the host can afford.
            budget.free = budget.free.less(size);
            budget.beyond = budget.beyond.less(size);
            state.cap = Some(wanted);
        }
    }
}

/// Applies the sizes that the operator fixed, and shrinks guests above their maximum.
pub(super) fn fixed(states: &mut [GuestState<'_>], budget: &mut HostBudget) {
    for state in states.iter_mut().filter(|state| state.assessment.held.is_none()) {
        let (limits, most) = (state.sample.limits, state.sample.most());
        let (wanted, clause) = match limits.mode {
            Mode::Pinned(size) => (size.max(state.assessment.min).min(most), Clause::Pinned),
            Mode::Released => (most, Clause::Released),
            Mode::Managed if state.assessment.actual > limits.max => (limits.max, Clause::Limits),
            // The guest's own rules need less memory, so the excess can be reclaimed.
            Mode::Managed if state.assessment.actual > state.assessment.ceiling.plus(MOVE_MIN) => {
                (state.assessment.ceiling, Clause::Request)
            }
            Mode::Managed => continue,
        };
        let actual = state.assessment.actual;
        let near = state.history.balloon.target().unwrap_or(actual);
        let off = Bytes(near.0.abs_diff(wanted.0));
        if off < MOVE_MIN {
            // The size that the operator fixed, without the limit of a control group.
            let whole = match limits.mode {
                Mode::Pinned(size) => size.min(limits.max),
                Mode::Released => limits.max,
                Mode::Managed => continue,
            };
            let clause = if whole.less(wanted) < MOVE_MIN { clause } else { Clause::GroupFull };
            state.to = Some((actual, Action::Hold, clause));
        } else if wanted > actual {
            let lack = wanted.less(actual.plus(state.history.balloon.going(actual)));
            let size = lack.min(budget.free);
            if size >= MOVE_MIN {
                grant(state, budget, size, clause);
            } else {
                state.to = Some((actual, Action::Hold, clause));
                state.bounds.push(Bound::Host);
            }
        } else if shrinks(state, clause) && !state.history.balloon.is_shrinking() {
            // The guest shrinks in steps. Each step shows if the guest works with less memory.
            let to = wanted.max(Bytes(actual.0 - actual.0 / 4));
            if to > wanted {
                state.bounds.push(Bound::Step);
            }
            budget.comes(state.assessment.holding.gain(to));
            state.to = Some((to, Action::Shrink, clause));
        }
    }
}

/// Returns true if the obstacles allow this shrink. A guest that waits for memory, or did not
/// shrink when requested, is not shrunk. A request of the guest's own rules can wait until the
/// cool-down is over.
fn shrinks(state: &GuestState<'_>, clause: Clause) -> bool {
    match (clause, state.assessment.against(Urgency::None)) {
        (_, Some(Clause::Strained | Clause::Stuck)) => false,
        (Clause::Request, against) => matches!(against, None | Some(Clause::Moving)),
        _ => true,
    }
}

pub(super) fn wishes(states: &mut [GuestState<'_>], budget: &mut HostBudget, config: &Config) {
    // Half of the surplus is granted. The effect is measured before the other half is granted.
    let surplus = budget.beyond.less(config.hysteresis);
    spend(states, budget, Bytes(surplus.0 / 2), &|state| wished(state));
}

/// Grants refaulting guests the memory that was freed for them.
pub(super) fn refaults(states: &mut [GuestState<'_>], budget: &mut HostBudget, config: &Config) {
    let beyond = budget.beyond;
    spend(states, budget, beyond, &|state| lacked(state, config));
}

fn spend(
    states: &mut [GuestState<'_>],
    budget: &mut HostBudget,
    size: Bytes,
    most: &dyn Fn(&GuestState<'_>) -> Option<Bytes>,
) {
    let (indices, parts): (Vec<usize>, Vec<Part>) = states
        .iter()
        .enumerate()
        .filter_map(|(index, state)| Some((index, part(state, most(state)?))))
        .unzip();
    let given = divide(size.min(budget.free), &parts);
    for (index, size) in indices.into_iter().zip(given) {
        if size >= MOVE_MIN {
            grant(&mut states[index], budget, size, Clause::Wish);
        }
    }
}

/// Counts the memory that refaulting guests lack. Guests with unused memory give it up for
/// refaulting guests, although no guest is in need.
pub(super) fn count_refaults(states: &[GuestState<'_>], budget: &mut HostBudget, config: &Config) {
    let lacked: Bytes = states.iter().filter_map(|state| lacked(state, config)).sum();
    if lacked >= MOVE_MIN {
        budget.refaults = lacked.plus(budget.to_beyond).less(budget.beyond);
    }
}

/// Returns the memory that a refaulting guest lacks. The result is at most the amount that the
/// guest refaults in a minute, and does not take the guest above its share. The idle memory tax
/// raises the share, because memory in use has a lower price than idle memory.
fn lacked(state: &GuestState<'_>, config: &Config) -> Option<Bytes> {
    let is_lacking = state.assessment.refaults && state.verdicts.shrink != Some(true);
    let read = state.history.view?.thrash().0.saturating_mul(60);
    let share = state.share.0.saturating_mul(config.idle_price_permille()) / 1000;
    let most = Bytes(read).min(Bytes(share).less(state.assessment.actual));
    is_lacking.then_some(wished(state)?.min(most))
}

fn wished(state: &GuestState<'_>) -> Option<Bytes> {
    let at = &state.assessment;
    let is_open = state.is_open_and_managed() && at.wishes;
    let reach = state.history.balloon.reach();
    let most = Bytes(at.actual.0 / 8).min(at.ceiling.less(at.actual)).min(reach).min(at.backed);
    (is_open && at.actual.plus(MOVE_MIN) <= at.ceiling).then_some(most)
}

fn grant(state: &mut GuestState<'_>, budget: &mut HostBudget, size: Bytes, clause: Clause) {
    // Granted memory that has not arrived stays granted.
    let base = state.assessment.actual.plus(state.history.balloon.going(state.assessment.actual));
    state.to = Some((base.plus(size), Action::Grow, clause));
    let promised = size.plus(released(state));
    budget.free = budget.free.less(promised);
    budget.beyond = budget.beyond.less(promised);
}

/// Returns the part of a release that has not arrived.
fn released(state: &GuestState<'_>) -> Bytes {
    state.history.balloon.released(state.assessment.actual)
}
