//! Proxmox's automatic ballooning, as pvestatd does it: what the host uses is steered to four
//! fifths of it, whatever guests need.
//!
//! Every 10 s what the host has too much or too little is divided by shares, at most 100 MiB a
//! guest. Guests with much free memory give first, those with little get first; then all.

use crate::policies::{Order, Policy, Scene};
use counters::Bytes;
use policy::arbiter::GuestSample;

const DECIDE_MS: u64 = 10_000;
const USED_GOAL_PERMILLE: u64 = 800;
const CHANGE_MAX: i64 = 100 << 20;
const DEAD_BAND: i64 = 10 << 20;

/// pvestatd.
pub struct Proxmox;

/// The size of a guest in the middle of a pass, and its bounds.
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

/// Divides a change among some guests, so that what they have above their minimum goes by their
/// shares. Returns what could not be divided.
fn spread(sizes: &mut [Size], list: &[usize], change: i64) -> i64 {
    let mut rest = change;
    let mut open: Vec<usize> = list.to_vec();
    while rest != 0 && !open.is_empty() {
        let shares: i64 = open.iter().map(|i| sizes[*i].shares).sum();
        let above: i64 = open.iter().map(|i| sizes[*i].now - sizes[*i].min).sum();
        let pool = above + rest;
        let mut moved = 0;
        let mut next = Vec::new();
        for index in &open {
            let one = &mut sizes[*index];
            let fair =
                one.min + (i128::from(pool) * i128::from(one.shares) / i128::from(shares)) as i64;
            let low = one.min.max(one.before - CHANGE_MAX);
            let high = one.max.min(one.before + CHANGE_MAX).max(low);
            let mut to = fair.clamp(low, high);
            // Nobody is moved against the direction of the whole.
            to = if change > 0 { to.max(one.now) } else { to.min(one.now) };
            let left = rest - moved;
            let step = if change > 0 { (to - one.now).min(left) } else { (to - one.now).max(left) };
            one.now += step;
            moved += step;
            if one.now != low && one.now != high {
                next.push(*index);
            }
        }
        if moved == 0 {
            break;
        }
        rest -= moved;
        open = next;
    }
    rest
}

impl Policy for Proxmox {
    fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order> {
        if !scene.now_ms.is_multiple_of(DECIDE_MS) {
            return Vec::new();
        }
        let (total, available) = (scene.host.total, scene.host.available);
        let goal = total.permille(USED_GOAL_PERMILLE).0 as i64 - total.less(available).0 as i64;
        if goal.abs() <= DEAD_BAND {
            return Vec::new();
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
        let [first, second] = if goal > 0 { [without, with] } else { [with, without] };
        let rest = spread(&mut sizes, &first, goal);
        spread(&mut sizes, &second, rest);
        let moved = known.iter().zip(&sizes).filter(|(_, one)| one.now != one.before);
        moved
            .map(|((sample, actual), one)| {
                let target = Bytes(one.now.max(0) as u64);
                Order { key: sample.key, from: *actual, target, clause: None }
            })
            .collect()
    }
}
