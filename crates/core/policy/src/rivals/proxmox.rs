//! Proxmox's automatic ballooning (pve-manager, PVE/Service/pvestatd.pm with PVE/AutoBalloon.pm).
//! It steers the host's used memory to four fifths, whatever guests need.
//!
//! Every 10 s the host's surplus or lack, `0.8 total − used`, is divided among the guests. Their
//! memory above the minimum is then in proportion to their shares, with a change of at most 100 MiB
//! a guest. A difference of up to 10 MiB is ignored. A guest is roomy if its free memory exceeds a
//! quarter of its minimum. If memory is short, roomy guests shrink first; if there is a surplus,
//! the other guests grow first. If these guests cannot change at all, all guests take part. A guest
//! above its part may have to shrink while others grow.

use super::scene::{Beat, Order, Scene, used_permille};
use crate::arbiter::GuestSample;
use base::Bytes;
use std::cmp::Ordering;

const DECIDE_MS: u64 = 10_000;
const USED_GOAL_PERMILLE: u64 = 800;
const CHANGE_MAX: i64 = 100 << 20;
const DEAD_BAND: i64 = 10 << 20;
/// Maximum number of rounds in which the remaining amount is divided again.
const ROUNDS_MAX: usize = 100;

/// The state of pvestatd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxmox(Beat);

/// The size of a guest during a pass, and its bounds.
struct Size {
    shares: i64,
    min: i64,
    max: i64,
    before: i64,
    now: i64,
}

fn size(sample: &GuestSample, actual: Bytes) -> Size {
    let (min, max) = (sample.limits.min.0 as i64, sample.limits.max.0 as i64);
    let (before, shares) = (actual.0 as i64, i64::from(sample.limits.shares.max(1)));
    Size { shares, min, max, before, now: before }
}

/// Divides a change among some guests, so that their memory above the minimum is in proportion to
/// their shares. Returns the part that could not be divided.
fn spread(sizes: &mut [Size], list: &[usize], change: i64) -> i64 {
    let mut rest = change;
    let mut open: Vec<usize> = list.to_vec();
    for _ in 0..ROUNDS_MAX {
        let shares: i64 = open.iter().map(|i| sizes[*i].shares).sum();
        let above: i64 = open.iter().map(|i| sizes[*i].now - sizes[*i].min).sum();
        if rest == 0 || shares == 0 {
            break;
        }
        let (mut moved, mut has_moved) = (0, false);
        open.retain(|index| {
            let one = &mut sizes[*index];
            let part = i128::from(above + rest) * i128::from(one.shares) / i128::from(shares);
            let fair = (one.min + part as i64).min(one.max).max(one.min);
            let to = match fair.cmp(&one.before) {
                Ordering::Greater if change > 0 => fair.min(one.before + CHANGE_MAX),
                Ordering::Less => fair.max(one.before - CHANGE_MAX),
                // The guest has reached its part.
                _ => return false,
            };
            has_moved |= to != one.now;
            moved += to - one.now;
            one.now = to;
            true
        });
        rest -= moved;
        if !has_moved {
            break;
        }
    }
    rest
}

impl Proxmox {
    pub(super) fn pass(&mut self, scene: &Scene<'_>) -> (Option<u64>, Vec<Order>) {
        let Some(host) = scene.host else { return (None, Vec::new()) };
        let seen = Some(used_permille(host));
        let goal = host.total.permille(USED_GOAL_PERMILLE).0 as i64
            - host.total.less(host.available).0 as i64;
        if !self.0.is_due(DECIDE_MS, scene.now_ms) || goal.abs() <= DEAD_BAND {
            return (seen, Vec::new());
        }
        let known: Vec<(&GuestSample, Bytes)> =
            scene.samples.iter().filter_map(|s| Some((s, s.actual?))).collect();
        let mut sizes: Vec<Size> = known.iter().map(|(s, actual)| size(s, *actual)).collect();
        let roomy = |index: &usize| {
            let (sample, _) = known[*index];
            let free = sample.memory.and_then(|m| m.free).unwrap_or(Bytes::ZERO);
            free > sample.limits.min.permille(250)
        };
        let (with, without): (Vec<usize>, Vec<usize>) = (0..sizes.len()).partition(roomy);
        let first = if goal > 0 { without } else { with };
        let rest = spread(&mut sizes, &first, goal);
        if rest.abs() >= goal.abs() {
            let all: Vec<usize> = (0..sizes.len()).collect();
            spread(&mut sizes, &all, rest);
        }
        let moved = known.iter().zip(&sizes).filter(|(_, one)| one.now != one.before);
        let order = |((sample, _), one): (&(&GuestSample, Bytes), &Size)| Order {
            key: sample.key,
            target: Bytes(one.now.max(0) as u64),
            stall_ms: None,
        };
        (seen, moved.map(order).collect())
    }
}
