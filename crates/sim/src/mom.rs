//! oVirt's MOM, by its published balloon policy: guests shrink together while the host has less
//! than a fifth free, and grow together while it has more.
//!
//! Collected every 5 s, decided every 10 s from the mean of the last ten samples. A guest counts
//! as used what is not free, its page cache too.

use crate::policies::{Order, Policy, Scene};
use counters::Bytes;
use policy::arbiter::Key;
use std::collections::{BTreeMap, VecDeque};

const COLLECT_MS: u64 = 5_000;
const DECIDE_MS: u64 = 10_000;
const HISTORY: usize = 10;
/// Below this much of the host free it is under pressure, and below that much critically so.
const PRESSURE_PERMILLE: u64 = 200;
const CRITICAL_PERMILLE: u64 = 50;
/// What an unconstrained guest is to have free.
const GUEST_FREE_PERMILLE: u64 = 200;
/// A guest's size changes by no more than this at once, and by no less.
const CHANGE_MAX_PERMILLE: u64 = 50;
const CHANGE_MIN_TEN_THOUSANDTHS: u64 = 25;

/// MOM.
#[derive(Default)]
pub struct Mom {
    host: VecDeque<u64>,
    /// What guests have, and what of it is free.
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
    fn collect(&mut self, scene: &Scene<'_>) {
        keep(&mut self.host, scene.host.available.0);
        for sample in scene.samples {
            if let (Some(actual), Some(memory)) = (sample.actual, sample.memory)
                && let Some(free) = memory.free
            {
                keep(self.guests.entry(sample.key).or_default(), (actual.0, free.0));
            }
        }
    }

    fn decide(&self, scene: &Scene<'_>) -> Vec<Order> {
        let free = mean(self.host.iter().copied());
        let free_permille =
            (u128::from(free) * 1000 / u128::from(scene.host.total.0.max(1))) as u64;
        let mut orders = Vec::new();
        for sample in scene.samples {
            let (Some(actual), Some(history)) = (sample.actual, self.guests.get(&sample.key))
            else {
                continue;
            };
            let used =
                mean(history.iter().map(|h| h.0)).saturating_sub(mean(history.iter().map(|h| h.1)));
            let target = match free_permille < PRESSURE_PERMILLE {
                true => shrunk(actual, used, free_permille),
                false => grown(actual, used, sample.limits.max),
            };
            let least = actual.0 / 10_000 * CHANGE_MIN_TEN_THOUSANDTHS;
            if target.0.abs_diff(actual.0) > least {
                orders.push(Order { key: sample.key, from: actual, target, clause: None });
            }
        }
        orders
    }
}

/// While the host is under pressure: what is used and a free part that goes with the host's,
/// below nothing when it is critical, so that the guest swaps.
fn shrunk(actual: Bytes, used: u64, host_permille: u64) -> Bytes {
    let least = match host_permille <= CRITICAL_PERMILLE {
        true => Bytes(used).less(actual.permille(CRITICAL_PERMILLE - host_permille)),
        false => {
            let part = GUEST_FREE_PERMILLE * host_permille / PRESSURE_PERMILLE;
            Bytes(used).plus(actual.permille(part))
        }
    };
    actual.permille(1000 - CHANGE_MAX_PERMILLE).max(least).min(actual)
}

/// Otherwise: what is used and a free fifth, or one step up, whichever is more.
fn grown(actual: Bytes, used: u64, max: Bytes) -> Bytes {
    if actual >= max {
        return actual;
    }
    let wanted = Bytes(used).plus(actual.permille(GUEST_FREE_PERMILLE));
    let step = actual.permille(1000 + CHANGE_MAX_PERMILLE);
    step.min(max).max(wanted).min(max)
}

impl Policy for Mom {
    fn watch(&mut self, scene: &Scene<'_>) {
        if scene.now_ms.is_multiple_of(COLLECT_MS) {
            self.collect(scene);
        }
    }

    fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order> {
        self.watch(scene);
        match scene.now_ms.is_multiple_of(DECIDE_MS) {
            true => self.decide(scene),
            false => Vec::new(),
        }
    }
}
