//! The balloon of qemus' containers (github.com/qemus/qemu, docs/ballooning.md): a PI controller
//! that keeps four fifths of the host in use.
//!
//! Each guest has its own controller, like each container of the original. The controller runs
//! every 5 s, with `target = actual − (0.5 e + 0.05 ∫e) × maximum`. Here `e = 0.2 − free / total`,
//! and the integral of `e` over seconds is limited to ±1. The floor is a third of the maximum, or
//! the guest's used memory without cache if that is more. The used memory does not count if less
//! than a tenth of the host is free. The ceiling falls from the maximum to a third while tasks on
//! the host wait for memory for 10 to 50 % of the time. At a bound the integral is reset to the
//! value that leads to that bound. Changes below 128 MiB are not made, unless they reach a bound.
//! The cap of a container's own group has no counterpart here.

use super::scene::{Beat, Order, Scene, part, used_permille};
use crate::arbiter::{GuestSample, Key};
use base::Bytes;
use std::collections::BTreeMap;

const EVERY_MS: u64 = 5_000;
/// Millionths of the host, or of a guest's maximum.
const ONE: i128 = 1_000_000;
const FREE_GOAL: i128 = 200_000;
const FREE_HARD: i128 = 100_000;
const FLOOR_PERMILLE: u64 = 330;
const HYSTERESIS: u64 = 128 << 20;
/// Waiting times, in thousandths, at which the ceiling begins to fall, and at which it reaches its
/// lowest value.
const WAITS: u64 = 100;
const WAITS_MAX: u64 = 500;

/// The controllers of all guests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pi {
    looks: Beat,
    decides: Beat,
    /// Time in which tasks of the host waited for memory, over about ten seconds, in millionths.
    waited: u64,
    /// Integral of each guest's error, and its last target.
    guests: BTreeMap<Key, (i128, Bytes)>,
}

impl Pi {
    pub(super) fn pass(&mut self, scene: &Scene<'_>) -> (Option<u64>, Vec<Order>) {
        let Some(host) = scene.host else { return (None, Vec::new()) };
        let waits = scene.host_psi_permille.unwrap_or(0).min(1000) * 1000;
        if self.looks.is_due(1_000, scene.now_ms) {
            self.waited = self.waited - self.waited / 10 + waits / 10;
        }
        let seen = Some(used_permille(host));
        if !self.decides.is_due(EVERY_MS, scene.now_ms) {
            return (seen, Vec::new());
        }
        self.guests.retain(|key, _| scene.samples.iter().any(|sample| sample.key == *key));
        let free = i128::from(part(host.available, host.total, ONE as u64));
        let order = |sample: &GuestSample| {
            let target = self.step(sample, free)?;
            Some(Order { key: sample.key, target, stall_ms: None })
        };
        (seen, scene.samples.iter().filter_map(order).collect())
    }

    /// Returns the fall of the ceiling, in thousandths of the distance to the floor.
    fn fallen(&self) -> u64 {
        (self.waited / 1000).clamp(WAITS, WAITS_MAX).saturating_sub(WAITS) * 1000
            / (WAITS_MAX - WAITS)
    }

    fn step(&mut self, sample: &GuestSample, free: i128) -> Option<Bytes> {
        let (actual, memory) = (sample.actual?, sample.memory?);
        let max = sample.limits.max;
        let floor = max.permille(FLOOR_PERMILLE);
        let high = max.less(max.less(floor).permille(self.fallen()));
        let used = memory.available.map_or(floor, |available| memory.actual.less(available));
        let low = if free < FREE_HARD { floor } else { floor.max(used) }.min(high);
        let (integral, last) = self.guests.entry(sample.key).or_insert((0, max));
        let error = FREE_GOAL - free;
        let grown = (*integral + error * i128::from(EVERY_MS / 1000)).clamp(-ONE, ONE);
        let change = (error / 2 + grown / 20) * i128::from(max.0) / ONE;
        let wanted = i128::from(actual.0) - change;
        let target = Bytes(wanted.clamp(i128::from(low.0), i128::from(high.0)) as u64);
        let is_bound = (target == low && error > 0) || (target == high && error < 0);
        *integral = match is_bound {
            true => {
                let off = i128::from(actual.0) - i128::from(target.0);
                ((off * ONE / i128::from(max.0.max(1)) - error / 2) * 20).clamp(-ONE, ONE)
            }
            false => grown,
        };
        let is_enough = target.0.abs_diff(last.0) >= HYSTERESIS || target == low || target == high;
        if target == *last || !is_enough {
            return None;
        }
        *last = target;
        Some(target)
    }
}
