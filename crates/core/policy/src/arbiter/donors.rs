//! Shrinks of guests: the amount that each guest gives up, and the guests that cannot shrink.

use super::reason::{Action, Bound, Clause};
use super::regime::Urgency;
use super::sample::{Config, Key};
use super::share::{Part, divide};
use super::spare::Reclaim;
use super::state::{GuestState, HostBudget, MOVE_MIN};
use base::Bytes;

/// Smallest step of one pass, so that small guests do not shrink by tiny amounts.
const STEP_MIN: Bytes = Bytes::mib(32);
/// Largest step outside an emergency, in thousandths of the guest's size.
const STEP_MAX_PERMILLE: u64 = 250;

/// Shrinks guests to gain the memory that the host, guests in need and reservations lack. Returns
/// the guests that could not shrink, with their clauses.
pub(super) fn take(
    states: &mut [GuestState<'_>],
    budget: &mut HostBudget,
    config: &Config,
) -> Vec<(Key, Clause)> {
    by_rule(states, budget, config);
    let claim = Claim::of(budget);
    let gifts = matched(states, &claim, budget, config);
    order(states, &claim, gifts, budget, config)
}

/// The memory that guests must give up in a pass, and the reason.
#[derive(Clone, Copy, Debug)]
struct Claim {
    clause: Clause,
    urgency: Urgency,
    /// True if a guest or a reservation waits for the memory.
    is_urgent: bool,
    /// Memory that guests must give up.
    demand: Bytes,
    /// Memory that page-out is expected to gain. Balloons wait for this gain.
    page_out: Bytes,
}

impl Claim {
    fn of(budget: &HostBudget) -> Claim {
        let claim = match (budget.unmet, budget.reserve_lack) {
            (Bytes::ZERO, Bytes::ZERO) if budget.relieves => Clause::HostPressure,
            (Bytes::ZERO, Bytes::ZERO) if budget.lack == Bytes::ZERO => Clause::Refault,
            (Bytes::ZERO, Bytes::ZERO) => Clause::SetPoint,
            (Bytes::ZERO, _) => Clause::Reservation,
            _ => Clause::Shortage,
        };
        let clause = if budget.emergency { Clause::Emergency } else { claim };
        let is_urgent =
            !matches!(clause, Clause::SetPoint | Clause::HostPressure | Clause::Refault);
        // The host's lack already excludes memory that shrinking guests will return. If the host
        // lacks nothing, that memory is for the guests that wait.
        let demand = match budget.lack.max(budget.reserve_lack) {
            Bytes::ZERO if is_urgent => budget.unmet.less(budget.coming),
            Bytes::ZERO => budget.refaults.less(budget.coming),
            lack => lack.plus(budget.unmet),
        };
        // A guest waits even for a tiny amount, so at least one move is made.
        let is_move = is_urgent && demand > Bytes::ZERO;
        // Page-out finds unused memory, and memory that it reclaims in error is faulted in again.
        // Caches of guests are therefore first left to page-out, unless a guest waits.
        let page_out = if clause == Clause::SetPoint { budget.page_out } else { Bytes::ZERO };
        let urgency = match (is_urgent, budget.low) {
            _ if budget.emergency => Urgency::Emergency,
            (true, _) => Urgency::Need,
            (false, true) => Urgency::Low,
            (false, false) => Urgency::None,
        };
        let demand = if is_move { demand.max(MOVE_MIN) } else { demand };
        Claim { clause, urgency, is_urgent, demand, page_out }
    }

    /// Returns the kinds of memory that guests give up for this claim, in the order of reclaim.
    fn kinds(&self, budget: &HostBudget) -> &'static [Reclaim] {
        match self.clause {
            Clause::SetPoint if self.page_out > Bytes::ZERO && !budget.low => {
                &[Reclaim::Free, Reclaim::ColdCache, Reclaim::ThrashedCache]
            }
            Clause::SetPoint if self.page_out > Bytes::ZERO => {
                &[Reclaim::Free, Reclaim::ColdCache, Reclaim::ThrashedCache, Reclaim::HotCache]
            }
            Clause::Emergency => &[
                Reclaim::ColdCache,
                Reclaim::ThrashedCache,
                Reclaim::HotCache,
                Reclaim::AnyHotCache,
                Reclaim::ProcessMemory,
            ],
            Clause::Refault => &[Reclaim::ColdCache],
            // Memory in use is not reclaimed for a target that is nearly met.
            Clause::SetPoint | Clause::HostPressure if !budget.low => {
                &[Reclaim::ColdCache, Reclaim::ThrashedCache]
            }
            _ => &[Reclaim::ColdCache, Reclaim::ThrashedCache, Reclaim::HotCache],
        }
    }

    /// Returns the amount of this kind to reclaim. `open` is the demand that is not met yet.
    fn asked(
        &self,
        kind: Reclaim,
        open: Bytes,
        taken: Taken,
        budget: &HostBudget,
        cold_left: impl Fn() -> Bytes,
    ) -> Bytes {
        // The expected gain of page-out includes half of the guests' free memory, which is
        // reclaimed from the guests now.
        let waits = self.page_out.less(Bytes(taken.free.0 / 2));
        match kind {
            // These kinds of memory are reclaimed only for the reserve, not for the set point or
            // for another guest.
            Reclaim::AnyHotCache | Reclaim::ProcessMemory => {
                open.min(budget.deficit.less(taken.all))
            }
            Reclaim::HotCache if budget.emergency => {
                let due = budget.deficit.plus(budget.unmet).plus(budget.reserve_lack);
                open.min(due.less(taken.all))
            }
            // If there is time, other guests can give up their cold cache in later steps instead.
            Reclaim::ThrashedCache if !self.is_urgent && !budget.low => {
                open.less(waits).less(cold_left())
            }
            // Half-way to the reserve, cold cache is reclaimed without waiting for page-out.
            Reclaim::ColdCache if !budget.low => open.less(waits),
            Reclaim::HotCache => open.less(waits),
            Reclaim::ColdCache | Reclaim::ThrashedCache | Reclaim::Free => open,
        }
    }
}

/// Memory reclaimed so far in a pass.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    free: Bytes,
    all: Bytes,
}

/// Divides the demand among the guests, one kind of memory after the other.
fn matched(
    states: &[GuestState<'_>],
    claim: &Claim,
    budget: &HostBudget,
    config: &Config,
) -> Vec<Gift> {
    let mut given = vec![Gift::default(); states.len()];
    let (mut open, mut taken) = (claim.demand, Taken::default());
    for kind in claim.kinds(budget) {
        if open < MOVE_MIN {
            break;
        }
        let cold_left = || left_of(states, &given, Reclaim::ColdCache, claim.urgency);
        let asked = claim.asked(*kind, open, taken, budget, cold_left);
        let gives = given_of(states, &mut given, *kind, asked, claim.urgency, config);
        if *kind == Reclaim::Free {
            taken.free = gives;
        }
        open = open.less(gives);
        taken.all = taken.all.plus(gives);
    }
    // A small amount that another guest could use does not justify waking an idle guest.
    gather(&mut given, if claim.clause == Clause::Refault { STEP_MIN } else { MOVE_MIN });
    given
}

/// Shrinks the guests by the amounts in `gifts`. Returns the guests that could not shrink.
fn order(
    states: &mut [GuestState<'_>],
    claim: &Claim,
    gifts: Vec<Gift>,
    budget: &mut HostBudget,
    config: &Config,
) -> Vec<(Key, Clause)> {
    let mut refused = Vec::new();
    for (state, Gift { size, .. }) in states.iter_mut().zip(gifts) {
        if size >= MOVE_MIN {
            let step = step(state, claim.urgency, config);
            shrink(state, budget, size, claim.clause, step);
        } else if state.to.is_none_or(|(_, action, _)| action != Action::Shrink) {
            let against = state.against(claim.urgency);
            refused.push((state.sample.key, against.unwrap_or(Clause::Nothing)));
        }
    }
    refused
}

/// The amount that a guest must give up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gift {
    size: Bytes,
    /// Maximum memory that the guest can give up at once, of the kinds considered so far.
    most: Bytes,
}

/// Combines amounts that are too small for a move into moves of a few guests, those with the
/// largest amounts. The last of these moves may be smaller than the others.
fn gather(given: &mut [Gift], worth: Bytes) {
    let is_crumb = |gift: &Gift| gift.size > Bytes::ZERO && gift.size < worth;
    let mut left: Bytes = given.iter().filter(|gift| is_crumb(gift)).map(|gift| gift.size).sum();
    let mut crumbs: Vec<&mut Gift> = given.iter_mut().filter(|gift| is_crumb(gift)).collect();
    crumbs.sort_by_key(|gift| std::cmp::Reverse(gift.size));
    for gift in crumbs {
        let is_giver = left > Bytes::ZERO && gift.most >= MOVE_MIN;
        let size = left.max(MOVE_MIN).min(worth).min(gift.most);
        gift.size = if is_giver { size } else { Bytes::ZERO };
        left = left.less(gift.size);
    }
}

/// Returns the indices of the guests that may give up memory.
fn donors(states: &[GuestState<'_>], urgency: Urgency) -> Vec<usize> {
    let is_donor = |state: &GuestState<'_>| state.is_open() && state.against(urgency).is_none();
    (0..states.len()).filter(|i| is_donor(&states[*i])).collect()
}

/// Returns the memory of this kind that the donors still have.
fn left_of(states: &[GuestState<'_>], given: &[Gift], kind: Reclaim, urgency: Urgency) -> Bytes {
    let donors = donors(states, urgency).into_iter();
    let spare = |i: usize| states[i].history.spare(&states[i].assessment, kind);
    donors.map(|i| spare(i).less(given[i].size)).sum()
}

/// Adds each donor's part of one kind of memory to `given`. Returns the sum of the parts.
fn given_of(
    states: &[GuestState<'_>],
    given: &mut [Gift],
    kind: Reclaim,
    demand: Bytes,
    urgency: Urgency,
    config: &Config,
) -> Bytes {
    let donors = donors(states, urgency);
    let parts: Vec<Part> = donors
        .iter()
        .map(|i| {
            let state = &states[*i];
            let mut spare = state.history.spare(&state.assessment, kind);
            spare = spare.min(step(state, urgency, config));
            // Memory in use within a guest's share cannot be reclaimed for another guest's need.
            if kind == Reclaim::HotCache {
                let cold = state.history.spare(&state.assessment, Reclaim::ThrashedCache);
                spare = spare.min(cold.max(state.beyond_share()));
            }
            Part { cap: spare.less(given[*i].size), weight: weight(state, config) }
        })
        .collect();
    let last: Vec<bool> = donors.iter().map(|i| gives_last(&states[*i], kind)).collect();
    let divided = |demand, is_last: bool| {
        let part = |(part, last): (&Part, &bool)| Part {
            cap: if *last == is_last { part.cap } else { Bytes::ZERO },
            ..*part
        };
        divide(demand, &parts.iter().zip(&last).map(part).collect::<Vec<_>>())
    };
    let first = divided(demand, false);
    let rest = divided(demand.less(first.iter().copied().sum()), true);
    let shares: Vec<Bytes> =
        first.into_iter().zip(rest).map(|(one, other)| one.plus(other)).collect();
    for ((index, size), part) in donors.into_iter().zip(&shares).zip(&parts) {
        let gift = &mut given[index];
        gift.most = gift.most.max(gift.size.plus(part.cap));
        gift.size = gift.size.plus(*size);
    }
    shares.into_iter().sum()
}

/// Returns true for a guest that gives up memory only after all others. The host's gain from such a
/// guest is unmeasured, or much smaller than the guest's loss.
fn gives_last(state: &GuestState<'_>, kind: Reclaim) -> bool {
    state.sample.resident.is_none() || state.history.is_thin(&state.assessment, kind)
}

/// Returns the weight of a donor. Idle memory has a higher price than memory in use, and shares
/// lower the price of both.
fn weight(state: &GuestState<'_>, config: &Config) -> u64 {
    let touched = state.assessment.touched.as_mib().max(1);
    let idle = state.history.spare(&state.assessment, Reclaim::ColdCache).as_mib().min(touched);
    let idle_permille = idle * 1000 / touched;
    let taxed = (1000 - idle_permille) * 1000 + idle_permille * config.idle_price_permille();
    touched.saturating_mul(taxed) / u64::from(state.sample.limits.shares.max(1))
}

fn step(state: &GuestState<'_>, urgency: Urgency, config: &Config) -> Bytes {
    let actual = state.assessment.actual;
    let stride = config.step_permille * urgency.stride_permille() / 1000;
    let most = match urgency {
        Urgency::Emergency => stride.max(STEP_MAX_PERMILLE),
        _ => STEP_MAX_PERMILLE,
    };
    let plain = actual.permille(stride).max(STEP_MIN);
    state.verdicts.shrink_size.unwrap_or(plain).min(actual.permille(most).max(STEP_MIN))
}

/// Shrinks guests by the operator's rules, independent of the host's free memory.
fn by_rule(states: &mut [GuestState<'_>], budget: &mut HostBudget, config: &Config) {
    for state in states.iter_mut() {
        let free = state.is_open() && state.assessment.against(Urgency::Need).is_none();
        if state.verdicts.shrink == Some(true) && free {
            let most = state.assessment.holding.gain(state.assessment.min);
            let step = step(state, Urgency::None, config);
            let size = step.min(most);
            if size >= MOVE_MIN {
                shrink(state, budget, size, Clause::Rule, step);
            }
        }
    }
}

fn shrink(
    state: &mut GuestState<'_>,
    budget: &mut HostBudget,
    size: Bytes,
    clause: Clause,
    step: Bytes,
) {
    // The size is also reduced by untouched memory, because the host gains nothing from that part.
    // The reduction is limited, because the guest has to find those pages, and a slow balloon needs
    // time.
    let (actual, holding) = (state.assessment.actual, state.assessment.holding);
    let most = holding.at_once().min(state.history.balloon.reach().max(Bytes(actual.0 / 4)));
    let to = holding.size_for(size).max(actual.less(most)).max(state.assessment.min);
    if to >= actual {
        return;
    }
    if size >= step {
        state.bounds.push(Bound::Step);
    }
    if to == state.assessment.min {
        state.bounds.push(Bound::Min);
    }
    budget.comes(holding.gain(to));
    state.to = Some((to, Action::Shrink, clause));
}
