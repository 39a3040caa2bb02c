//! oVirt's MOM (github.com/oVirt/mom, its shipped policy doc/balloon.rules). All guests shrink
//! while less than a fifth of the host is free, and all grow while more is free.
//!
//! Samples are collected every 5 s, and every 10 s the mean of the last ten samples decides. All
//! memory of a guest that is not free counts as used, including its page cache. Under pressure a
//! guest shrinks by at most 5 %, to its used memory plus a free part. The free part is 20 % of the
//! guest's size times `host free / 20 %`. If 5 % of the host or less is free, the guest shrinks
//! below its used memory. Without pressure a guest grows to the larger of two sizes: `used + 20 %`,
//! and its size plus 5 %. Changes below 0.25 % are not made.

use super::scene::{Beat, Order, Scene, part};
use crate::arbiter::Key;
use base::Bytes;
use std::collections::{BTreeMap, VecDeque};

const COLLECT_MS: u64 = 5_000;
const DECIDE_MS: u64 = 10_000;
const HISTORY: usize = 10;
/// Free parts of the host's memory below which the host is under pressure, and critically short.
const PRESSURE_PERMILLE: u64 = 200;
const CRITICAL_PERMILLE: u64 = 50;
/// Free part of an unconstrained guest.
const GUEST_FREE_PERMILLE: u64 = 200;
/// Largest and smallest single change of a guest's size.
const CHANGE_MAX_PERMILLE: u64 = 50;
const CHANGE_MIN_TEN_THOUSANDTHS: u64 = 25;

/// The state of MOM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mom {
    collects: Beat,
    decides: Beat,
    host: VecDeque<u64>,
    /// Sizes and free memory of guests.
    guests: BTreeMap<Key, VecDeque<(u64, u64)>>,
}

fn keep<T>(history: &mut VecDeque<T>, one: T) {
    history.push_back(one);
    if history.len() > HISTORY {
        history.pop_front();
    }
}

fn mean(all: impl ExactSizeIterator<Item = u64>) -> u64 {
    let count = all.len().max(1) as u64;
    (all.map(|one| one >> 10).sum::<u64>() / count) << 10
}

impl Mom {
    pub(super) fn watch(&mut self, scene: &Scene<'_>) {
        let Some(host) = scene.host else { return };
        if !self.collects.is_due(COLLECT_MS, scene.now_ms) {
            return;
        }
        keep(&mut self.host, host.available.0);
        self.guests.retain(|key, _| scene.samples.iter().any(|sample| sample.key == *key));
        for sample in scene.samples {
            if let (Some(actual), Some(memory)) = (sample.actual, sample.memory)
                && let Some(free) = memory.free
            {
                keep(self.guests.entry(sample.key).or_default(), (actual.0, free.0));
            }
        }
    }

    pub(super) fn pass(&mut self, scene: &Scene<'_>) -> (Option<u64>, Vec<Order>) {
        self.watch(scene);
        let Some(host) = scene.host else { return (None, Vec::new()) };
        let free_permille = part(Bytes(mean(self.host.iter().copied())), host.total, 1000);
        if !self.decides.is_due(DECIDE_MS, scene.now_ms) {
            return (Some(free_permille), Vec::new());
        }
        let order = |sample: &crate::arbiter::GuestSample| {
            let (actual, history) = (sample.actual?, self.guests.get(&sample.key)?);
            let used =
                mean(history.iter().map(|h| h.0)).saturating_sub(mean(history.iter().map(|h| h.1)));
            let target = match free_permille < PRESSURE_PERMILLE {
                true => shrunk(actual, used, free_permille),
                false => grown(actual, used, sample.limits.max),
            };
            let least = actual.0 / 10_000 * CHANGE_MIN_TEN_THOUSANDTHS;
            let is_enough = target.0.abs_diff(actual.0) > least;
            is_enough.then_some(Order { key: sample.key, target, stall_ms: None })
        };
        (Some(free_permille), scene.samples.iter().filter_map(order).collect())
    }
}

/// Returns the size under pressure: used memory, and a free part in proportion to the host's free
/// part. If the host is critically short, the size is below the used memory, so that the guest
/// swaps.
fn shrunk(actual: Bytes, used: u64, host_permille: u64) -> Bytes {
    let least = match host_permille <= CRITICAL_PERMILLE {
        true => Bytes(used).less(actual.permille(CRITICAL_PERMILLE - host_permille)),
        false => {
            let free = GUEST_FREE_PERMILLE * host_permille / PRESSURE_PERMILLE;
            Bytes(used).plus(actual.permille(free))
        }
    };
    actual.permille(1000 - CHANGE_MAX_PERMILLE).max(least).min(actual)
}

/// Returns the size without pressure: used memory and a free fifth, or one step up, whichever is
/// more.
fn grown(actual: Bytes, used: u64, max: Bytes) -> Bytes {
    if actual >= max {
        return actual;
    }
    let wanted = Bytes(used).plus(actual.permille(GUEST_FREE_PERMILLE));
    let step = actual.permille(1000 + CHANGE_MAX_PERMILLE);
    step.min(max).max(wanted).min(max)
}
