//! The worlds of the accident book. Each function returns the harm of its world under a policy.

use crate::figures::{GIB, MIB, host, plain, steady};
use crate::guest::{STEP_MS, Spec};
use crate::load::{Files, Load};
use crate::policies::{Dead, Policy, Watching};
use crate::world::{Line, Rival, World};
use policy::arbiter::Key;

/// Time of the incident, after the guests have settled.
const AT_MS: u64 = 60_000;
/// Time from the incident to the end of most worlds.
const LENGTH_MS: u64 = 600_000;

/// Runs a world to the incident, with a policy that only watches.
fn settle(world: &mut World, policy: &mut dyn Policy) {
    while world.now_ms + STEP_MS < AT_MS {
        world.step(&mut Watching(policy));
    }
}

/// Runs a world to the incident, with a policy that only watches, and keeps this much of the host
/// free.
fn settle_with(world: &mut World, policy: &mut dyn Policy, free_kib: u64) {
    while world.now_ms + STEP_MS < AT_MS {
        world.step(&mut Watching(policy));
        world.leave_free(free_kib);
    }
}

/// Returns a load that grows from `low_kib` to 2.5 GiB.
fn growing(low_kib: u64, from_ms: u64, until_ms: u64) -> Load {
    Load::Ramp { low_kib, high_kib: 5 * GIB / 2, from_ms, until_ms }
}

/// Returns the time that a guest's tasks waited for memory in the last step, in microseconds.
fn waited_us(world: &World, key: Key) -> u64 {
    world.member(key).map_or(0, |member| member.guest.wait_us)
}

/// Runs a policy until `until_ms`. Returns the time that these guests' tasks waited for memory, in
/// milliseconds.
fn wait_ms(world: &mut World, policy: &mut dyn Policy, keys: &[Key], until_ms: u64) -> u64 {
    let mut sum_us = 0;
    while world.now_ms < until_ms {
        world.step(policy);
        sum_us += keys.iter().map(|key| waited_us(world, *key)).sum::<u64>();
    }
    sum_us / 1000
}

/// Returns this guest without swap. Its kernel kills processes instead of deflating the balloon.
fn strict(spec: Spec) -> Spec {
    let mut spec = Spec { swap_kib: 0, ..spec };
    spec.traits.deflates_on_oom = false;
    spec
}

/// A guest of 4 GiB starts with 1 GiB, and its programs need 2.5 GiB. Half of the host is free.
pub(super) fn starved(policy: &mut dyn Policy) -> u64 {
    let mut world = host(steady(31 * GIB));
    let load = growing(500 * MIB, AT_MS, AT_MS + 120_000);
    let key = world.come(plain(4 * GIB, GIB, load), Line::default());
    settle(&mut world, policy);
    wait_ms(&mut world, policy, &[key], AT_MS + 1_800_000)
}

/// Eight guests of 4 GiB have touched and freed 2.5 GiB each, and their balloons return nothing to
/// the host, which is short. Returns the memory that neither side can use after ten minutes:
/// balloons hold it, but it is still resident on the host.
pub(super) fn in_vain(policy: &mut dyn Policy) -> u64 {
    let mut world = host(steady(0));
    for index in 0..8 {
        let load = Load::Hoarder { high_kib: 3 * GIB, low_kib: 500 * MIB, from_ms: 20_000 };
        let mut spec = plain(4 * GIB, 4 * GIB, load);
        spec.traits.yields = false;
        world.come(spec, Line { before_ms: index % 5 * STEP_MS, ..Line::default() });
    }
    settle_with(&mut world, policy, 4 * GIB);
    while world.now_ms < AT_MS + LENGTH_MS {
        world.step(policy);
    }
    let guests = world.members.iter().map(|member| &member.guest);
    guests.map(|guest| guest.resident_kib().saturating_sub(guest.actual_kib())).sum()
}

/// Eight guests of 6 GiB are full of files that were read once. The programs of a ninth guest grow
/// from 1 GiB to 4 GiB. Returns the number of processes that the guests' kernels killed.
pub(super) fn cached(policy: &mut dyn Policy) -> u64 {
    let mut world = host(steady(0));
    for index in 0..8 {
        let mut spec = strict(plain(6 * GIB, 6 * GIB, steady(2 * GIB)));
        spec.files = Files { hot_kib: 300 * MIB, cold_kib_s: 300 * MIB, cold_kib_max: u64::MAX };
        world.come(spec, Line { before_ms: index % 5 * STEP_MS, ..Line::default() });
    }
    let load =
        Load::Ramp { low_kib: GIB, high_kib: 4 * GIB, from_ms: AT_MS, until_ms: AT_MS + 60_000 };
    world.come(strict(plain(6 * GIB, 2 * GIB, load)), Line::default());
    settle_with(&mut world, policy, 10 * GIB);
    while world.now_ms < AT_MS + LENGTH_MS {
        world.step(policy);
    }
    world.members.iter().map(|member| member.guest.counters.oom_kills).sum()
}

/// A guest of 4 GiB boots on a host with 5 GiB free, which is less than half of the set point. The
/// guest holds little memory for five seconds, and needs 2.5 GiB after half a minute. Neighbours
/// have free memory.
pub(super) fn boot(policy: &mut dyn Policy) -> u64 {
    let mut world = host(steady(0));
    for index in 0..6 {
        let load = Load::Hoarder { high_kib: 3 * GIB, low_kib: 500 * MIB, from_ms: 20_000 };
        let line = Line { before_ms: index % 5 * STEP_MS, ..Line::default() };
        world.come(plain(4 * GIB, 4 * GIB, load), line);
    }
    settle_with(&mut world, policy, 5 * GIB);
    let load =
        Load::Ramp { low_kib: 100 * MIB, high_kib: 5 * GIB / 2, from_ms: 5_000, until_ms: 30_000 };
    let key = world.come(plain(4 * GIB, 4 * GIB, load), Line::default());
    wait_ms(&mut world, policy, &[key], AT_MS + 120_000)
}

/// Six guests of 6 GiB use at most 1 GiB each and cache files. The host is short, so balloons
/// inflate. The shortage ends, the policy's process dies, and a minute later one guest needs 4 GiB.
/// Returns the time until this guest has that memory; `None` if not within ten minutes.
pub(super) fn death(policy: &mut dyn Policy) -> Option<u64> {
    const DIES_MS: u64 = AT_MS + 600_000;
    const CLAIM_MS: u64 = DIES_MS + 60_000;
    let mut world = host(steady(0));
    let mut keys = Vec::new();
    for index in 0..6 {
        let mut spec = plain(6 * GIB, 6 * GIB, steady(GIB));
        if index == 0 {
            let (low_kib, high_kib) = (500 * MIB, 4 * GIB);
            let (from_ms, until_ms) = (CLAIM_MS, u64::MAX);
            spec.load = Load::Burst { low_kib, high_kib, from_ms, until_ms };
        }
        spec.files = Files { hot_kib: 100 * MIB, cold_kib_s: 200 * MIB, cold_kib_max: 4 * GIB };
        let line = Line { before_ms: index % 5 * STEP_MS, ..Line::default() };
        keys.push(world.come(spec, line));
    }
    settle(&mut world, policy);
    world.leave_free(2 * GIB);
    while world.now_ms < DIES_MS {
        world.step(policy);
    }
    world.own = steady(16 * GIB);
    let mut dead = Dead(policy);
    while world.now_ms < CLAIM_MS + LENGTH_MS {
        world.step(&mut dead);
        let is_served = keys.first().and_then(|key| world.member(*key)).is_some_and(|member| {
            member.guest.held.anon_kib >= 4 * GIB && member.guest.is_content(world.now_ms)
        });
        if world.now_ms > CLAIM_MS && is_served {
            return Some(world.now_ms - CLAIM_MS);
        }
    }
    None
}

/// One guest of 16 GiB reads 400 MiB of files a second for ten minutes. Six neighbours of 4 GiB
/// each use 2 GiB of hot cache, and the host is at its target.
pub(super) fn backup(policy: &mut dyn Policy) -> u64 {
    let mut world = host(steady(0));
    let mut keys = Vec::new();
    for index in 0..6 {
        let mut spec = plain(4 * GIB, 7 * GIB / 2, steady(GIB));
        spec.files.hot_kib = 2 * GIB;
        let line = Line { before_ms: index % 5 * STEP_MS, ..Line::default() };
        keys.push(world.come(spec, line));
    }
    let mut spec = plain(16 * GIB, 4 * GIB, steady(GIB));
    spec.files.cold_kib_s = 400 * MIB;
    spec.files.cold_kib_max = u64::MAX;
    world.come(spec, Line::default());
    let free_kib = world.total_kib / 5;
    settle_with(&mut world, policy, free_kib);
    wait_ms(&mut world, policy, &keys, AT_MS + LENGTH_MS)
}

/// Another manager sets a guest of 6 GiB to 3 GiB every 15 s for ten minutes, on a host with free
/// memory. The guest needs 4 GiB. Returns the number of orders that the policy gives to the same
/// balloon.
pub(super) fn two_managers(policy: &mut dyn Policy) -> u64 {
    let mut world = host(steady(20 * GIB));
    let mut spec = plain(6 * GIB, 9 * GIB / 2, steady(3 * GIB));
    spec.files.hot_kib = 700 * MIB;
    let key = world.come(spec, Line::default());
    settle(&mut world, policy);
    let until_ms = AT_MS + LENGTH_MS;
    if let Some(member) = world.members.first_mut() {
        let sizes_kib = [3 * GIB, 3 * GIB];
        member.rival = Some(Rival { from_ms: AT_MS, until_ms, period_ms: 15_000, sizes_kib });
    }
    let mut count = 0;
    while world.now_ms < until_ms {
        let orders = world.step(policy).into_iter().flat_map(|round| round.orders);
        count += orders.filter(|order| order.key == key).count() as u64;
    }
    count
}

/// A guest of 4 GiB idles with a balloon of 2.5 GiB, and reboots. Its driver inflates the balloon
/// to the same target again, and its programs need 2.5 GiB.
pub(super) fn reboot(policy: &mut dyn Policy) -> u64 {
    let mut world = host(steady(31 * GIB));
    let target_kib = 3 * GIB / 2;
    let key = world.come(plain(4 * GIB, target_kib, steady(100 * MIB)), Line::default());
    settle(&mut world, policy);
    if let Some(member) = world.members.first_mut() {
        member.reboot(AT_MS);
        member.guest.spec.load = growing(100 * MIB, 5_000, 25_000);
        // QEMU keeps the target across a reset.
        member.guest.balloon.set_target(target_kib);
    }
    policy.rebooted(key);
    wait_ms(&mut world, policy, &[key], AT_MS + 120_000)
}

/// Eight guests of 4 GiB use 2.5 GiB each, most of it rarely, and have swap. Another load takes all
/// of the free memory. Returns the most memory that guests swapped out.
pub(super) fn swapped(policy: &mut dyn Policy) -> u64 {
    let mut world = host(steady(0));
    for index in 0..8 {
        let mut spec = plain(4 * GIB, 4 * GIB, steady(5 * GIB / 2));
        spec.busy_permille = 300;
        spec.files = Files { hot_kib: 300 * MIB, cold_kib_s: 30 * MIB, cold_kib_max: u64::MAX };
        world.come(spec, Line { before_ms: index % 5 * STEP_MS, ..Line::default() });
    }
    settle(&mut world, policy);
    world.leave_free(0);
    let mut most_kib = 0;
    while world.now_ms < AT_MS + LENGTH_MS {
        world.step(policy);
        let swapped = world.members.iter().map(|member| member.guest.held.swapped_kib).sum();
        most_kib = most_kib.max(swapped);
    }
    most_kib
}

/// Twelve guests of 8 GiB on a host of 64 GiB read files until their memory is full. Then their
/// programs grow to 4 GiB each within five minutes. Returns the most memory that the host lacked.
pub(super) fn overfull(policy: &mut dyn Policy) -> u64 {
    let mut world = host(steady(2 * GIB));
    for index in 0..12 {
        let load = Load::Ramp {
            low_kib: GIB,
            high_kib: 4 * GIB,
            from_ms: 60_000,
            until_ms: 300_000 + index * 5_000,
        };
        let mut spec = plain(8 * GIB, 8 * GIB, load);
        spec.files = Files { hot_kib: 200 * MIB, cold_kib_s: 40 * MIB, cold_kib_max: u64::MAX };
        world.come(spec, Line { before_ms: index % 5 * STEP_MS, ..Line::default() });
    }
    while world.now_ms < AT_MS + LENGTH_MS {
        world.step(policy);
    }
    world.swapped_kib_max
}
