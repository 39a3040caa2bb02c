//! Scenes that only the table of policies uses.

use crate::balloon::Fault;
use crate::figures::{GIB, MIB, host, plain, steady};
use crate::guest::{STEP_MS, Spec};
use crate::load::{Files, Load};
use crate::policies::{Policy, Watching};
use crate::world::{Line, World};

/// Time of the event, after the guests have settled.
const AT_MS: u64 = 60_000;
/// Time for which a policy runs after the event.
const PATIENCE_MS: u64 = 600_000;

/// Service of a guest in need on a host with little free memory, next to guests with cold cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Milliseconds until the guest had the memory that it needed, no task in it waited, and the
    /// host did not swap; `None` if never.
    pub after_ms: Option<u64>,
    /// Maximum memory that the host had to swap.
    pub swapped_kib: u64,
}

/// Returns a guest of 8 GiB that has 6.5 GiB, nearly all of it cache of files that were read once.
fn cold() -> Spec {
    let mut spec = plain(8 * GIB, 13 * GIB / 2, steady(500 * MIB));
    spec.files = Files { hot_kib: 100 * MIB, cold_kib_s: 400 * MIB, cold_kib_max: u64::MAX };
    spec
}

/// A guest of 2 GiB needs 3 GiB more, and the host has 2 GiB free. Two neighbours hold 6 GiB of
/// cold cache each. The balloon of one neighbour may be stuck.
pub fn needy(policy: &mut dyn Policy, fault: Fault) -> Served {
    let mut world = host(steady(0));
    world.come(cold(), Line::default());
    world.come(Spec { balloon: fault, ..cold() }, Line { before_ms: 200, ..Line::default() });
    let load =
        Load::Burst { low_kib: GIB, high_kib: 9 * GIB / 2, from_ms: AT_MS, until_ms: u64::MAX };
    let key = world.come(plain(8 * GIB, 2 * GIB, load), Line { before_ms: 300, ..Line::default() });
    while world.now_ms + STEP_MS < AT_MS {
        world.step(&mut Watching(policy));
        world.leave_free(2 * GIB);
    }
    world.swapped_kib_max = 0;
    let mut after_ms = None;
    while world.now_ms < AT_MS + PATIENCE_MS {
        world.step(policy);
        let is_met = world.member(key).is_some_and(|m| {
            m.guest.actual_kib() >= 9 * GIB / 2 && m.guest.is_content(world.now_ms)
        });
        if world.now_ms > AT_MS && is_met && world.used_kib() <= world.total_kib {
            after_ms = after_ms.or(Some(world.now_ms - AT_MS));
        }
    }
    Served { after_ms, swapped_kib: world.swapped_kib_max }
}

/// Result of a policy with idle guests, on a host that is short of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Milliseconds until 19.5 % of the host was free. The set point is a fifth.
    pub after_ms: Option<u64>,
    /// Maximum memory in balloons that gave the host nothing, because it was never resident.
    pub in_vain_kib: u64,
}

/// Twenty guests of 4 GiB took 2 GiB each, freed all but 300 MiB and sleep. A tenth of the host is
/// free.
pub fn idle(policy: &mut dyn Policy) -> Idle {
    let mut world = host(steady(0));
    for index in 0..20 {
        let load = Load::Hoarder { high_kib: 2 * GIB, low_kib: 300 * MIB, from_ms: 20_000 };
        let line = Line { before_ms: index % 5 * STEP_MS, ..Line::default() };
        world.come(plain(4 * GIB, 4 * GIB, load), line);
    }
    let held =
        |world: &World| -> u64 { world.members.iter().map(|m| m.guest.resident_kib()).sum() };
    while world.now_ms + STEP_MS < AT_MS {
        world.step(&mut Watching(policy));
        if world.now_ms <= 20_000 {
            world.leave_free(world.total_kib - world.total_kib * 9 / 10);
        }
    }
    let before_kib = held(&world);
    let mut idle = Idle { after_ms: None, in_vain_kib: 0 };
    while world.now_ms < AT_MS + PATIENCE_MS {
        world.step(policy);
        if world.available_kib() * 1000 / world.total_kib >= 195 {
            idle.after_ms = idle.after_ms.or(Some(world.now_ms.saturating_sub(AT_MS)));
        }
        let taken: u64 = world.members.iter().map(|m| m.guest.balloon.size_kib).sum();
        let got_kib = before_kib.saturating_sub(held(&world));
        idle.in_vain_kib = idle.in_vain_kib.max(taken.saturating_sub(got_kib));
    }
    idle
}

/// Twelve guests under steady load have enough memory, on a host with room for all. Returns the
/// time for which the guests' tasks waited for memory in an hour, in milliseconds.
pub fn calm(policy: &mut dyn Policy) -> u64 {
    const HOUR_MS: u64 = 3_600_000;
    let mut world = host(steady(20 * GIB));
    for index in 0..12 {
        let mut spec = plain(3 * GIB, 3 * GIB, steady(GIB + index * 50 * MIB));
        spec.files.hot_kib = (200 + index * 40) * MIB;
        world.come(spec, Line { before_ms: index % 5 * STEP_MS, ..Line::default() });
    }
    let mut waited_us = 0;
    while world.now_ms < AT_MS + HOUR_MS {
        match world.now_ms < AT_MS {
            true => _ = world.step(&mut Watching(policy)),
            false => {
                world.step(policy);
                waited_us += world.members.iter().map(|m| m.guest.wait_us).sum::<u64>();
            }
        }
    }
    waited_us / 1000
}
