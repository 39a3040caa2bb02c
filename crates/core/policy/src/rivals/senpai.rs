//! senpai (github.com/facebookincubator/senpai, senpai.py), the origin of the plugin of that name
//! in facebookincubator/oomd. senpai reclaims memory until some task begins to wait for memory.
//!
//! Once a second, the rule adds up the time `t` for which the tasks of a guest waited for memory.
//! If `t` exceeds 10 ms, the rule backs off: `size × (1 + min(1, (t / 200 ms)²))`. Otherwise, 6 s
//! after the last change, the rule probes: `size × (1 − min(1 %, 1 % × (1 ms / t)²))`. After each
//! change, `t` restarts at 0. The floor is 100 MiB. The rule sets the size of the balloon, where
//! senpai sets the limit of a control group. A guest that does not report its waits is not resized.
//! Unlike oomd's plugin, the rule does not stop when swap is full.

use super::scene::{Beat, Order, Scene};
use crate::arbiter::{GuestSample, Key};
use base::Bytes;
use std::collections::BTreeMap;

const EVERY_MS: u64 = 1_000;
/// Beats from one change to the next probe.
const REST: u64 = 6;
const TARGET_US: u64 = 10_000;
/// One, in millionths. The largest back-off is made at `BACK_OFF_AT` times the target, and the
/// largest probe at the target divided by `PROBE_AT`.
const ONE: u64 = 1_000_000;
const BACK_OFF_AT: u64 = 20;
const PROBE_AT: u64 = 10;
const PROBE_MAX: u64 = 10_000;
const SIZE_MIN: Bytes = Bytes::mib(100);

/// The probes of all guests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Senpai {
    beat: Beat,
    guests: BTreeMap<Key, Probe>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Probe {
    total_us: u64,
    waited_us: u64,
    rest: u64,
}

impl Senpai {
    pub(super) fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order> {
        if !self.beat.is_due(EVERY_MS, scene.now_ms) {
            return Vec::new();
        }
        self.guests.retain(|key, _| scene.samples.iter().any(|sample| sample.key == *key));
        scene.samples.iter().filter_map(|sample| self.step(sample)).collect()
    }

    fn step(&mut self, sample: &GuestSample) -> Option<Order> {
        let (actual, total_us) = (sample.actual?, sample.memory?.psi_some_us?);
        let first = Probe { total_us, waited_us: 0, rest: REST };
        let probe = self.guests.entry(sample.key).or_insert(first);
        // A counter that went backwards belongs to another boot.
        let more_us = total_us.saturating_sub(probe.total_us);
        probe.waited_us = probe.waited_us.saturating_add(more_us);
        probe.total_us = total_us;
        let waited_us = probe.waited_us;
        let target = if waited_us > TARGET_US {
            let times = (waited_us.saturating_mul(ONE) / (TARGET_US * BACK_OFF_AT)).min(ONE);
            actual.plus(parts(actual, times * times / ONE))
        } else if probe.rest > 0 {
            probe.rest -= 1;
            return None;
        } else {
            let times = (TARGET_US * ONE / (waited_us.max(1) * PROBE_AT)).min(ONE);
            actual.less(parts(actual, times * times / ONE * PROBE_MAX / ONE))
        };
        *probe = Probe { total_us, waited_us: 0, rest: REST - 1 };
        let target = target.max(SIZE_MIN.min(actual));
        Some(Order { key: sample.key, target, stall_ms: Some(waited_us / 1000) })
    }
}

/// Returns the given number of millionths of a size.
fn parts(size: Bytes, parts: u64) -> Bytes {
    Bytes((u128::from(size.0) * u128::from(parts) / u128::from(ONE)) as u64)
}
