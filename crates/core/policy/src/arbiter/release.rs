//! Release of balloons. Deflating a balloon costs CPU time of a guest just when the guest needs
//! memory. No balloon therefore stays inflated without a use for the host.
//!
//! ```text
//!   host short ─► shrink ─► host has its set point ─► release ─┬─ not taken again: it stays
//!                                                              └─ taken again: rest, then retry
//! ```
//!
//! A released size costs the host nothing until the guest uses it, so it is not promised. On a host
//! at its set point only guests with free memory are released. For a guest without free memory, the
//! balloon is a ceiling: without it, the guest would fill its cache.

use super::reason::{Action, Clause};
use super::sample::Config;
use super::share::{Part, divide};
use super::state::{GuestState, HostBudget, MOVE_MIN};
use super::turns::Direction;
use base::Bytes;

/// Least time from a shrink to the release of the balloon. Freed memory needs this time to arrive
/// on the host.
const AFTER_SHRINK_MS: u64 = 2_000;

/// Releases balloons. The host must neither be short of memory nor wait for it, and no guest may
/// wait for memory of another guest.
pub(super) fn release(
    states: &mut [GuestState<'_>],
    budget: &HostBudget,
    config: &Config,
    now_ms: u64,
) {
    let caps: Vec<Bytes> = states.iter().map(|state| standing(state, now_ms)).collect();
    let released: Bytes =
        states.iter().map(|state| state.history.balloon.released(state.assessment.actual)).sum();
    let room = budget.beyond.less(config.hysteresis).less(released);
    let has_room = caps.iter().copied().sum::<Bytes>() <= room;
    let amount = if has_room { room } else { budget.free.less(released) };
    // A guest with less free memory than its headroom would fill more memory at once.
    let has_free = |state: &GuestState<'_>| {
        state.history.view.is_some_and(|view| view.has_free(state.assessment.headroom))
    };
    let parts: Vec<Part> = states
        .iter()
        .zip(caps)
        .map(|(state, cap)| Part {
            cap: if has_room || has_free(state) { cap } else { Bytes::ZERO },
            weight: u64::from(state.sample.limits.shares),
        })
        .collect();
    for (state, size) in states.iter_mut().zip(divide(amount, &parts)) {
        if size >= MOVE_MIN {
            state.to = Some((state.assessment.actual.plus(size), Action::Grow, Clause::Room));
        }
    }
}

/// Returns the part of a balloon to release. A balloon is not released while it moves, while a rule
/// decides about its size, or while it rests after a release in vain.
fn standing(state: &GuestState<'_>, now_ms: u64) -> Bytes {
    let (history, at, verdicts) = (&state.history, &state.assessment, &state.verdicts);
    let is_open = state.is_open_and_managed()
        && history.balloon.target().is_none()
        && state.sample.process.pinned.is_none()
        && (verdicts.shrink, verdicts.grow) == (None, None)
        && verdicts.may_grow != Some(false);
    let waits = history.moves.releases.rests(now_ms)
        || history.cools(Direction::Up, AFTER_SHRINK_MS, now_ms);
    let found = state.sample.process.found.map_or(at.ceiling, |found| found.min(at.ceiling));
    match is_open && !waits && !history.balloon.is_astray() {
        true => found.less(at.actual).min(history.balloon.reach()),
        false => Bytes::ZERO,
    }
}
