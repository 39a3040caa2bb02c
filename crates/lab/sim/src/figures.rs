//! Scenes of the table in docs/benchmarks.md. A scene is the same for all policies.

use crate::balloon::Fault;
use crate::guest::{STEP_MS, Spec, Traits};
use crate::load::{Files, Load};
use crate::policies::{Order, Ours, Policy, Watching};
use crate::world::{Line, World};
use base::Bytes;
use policy::arbiter::{Config, Fate, Key};
use std::cmp::Ordering;
use std::collections::BTreeMap;

pub(crate) const MIB: u64 = 1 << 10;
pub(crate) const GIB: u64 = 1 << 20;

/// Returns a host of 64 GiB. The set point is a fifth of its memory, as in MOM and Proxmox.
pub(crate) fn host(own: Load) -> World {
    let total = Bytes::mib(64 << 10);
    let config = Config { set_point: total.permille(200), ..Config::of_host(total) };
    World::new(config, 64 * GIB, own, 1)
}

/// Returns an ordinary guest: with the daemon, swap and a balloon that works.
pub(crate) fn plain(max_kib: u64, actual_kib: u64, load: Load) -> Spec {
    Spec {
        min_kib: GIB / 2,
        max_kib,
        actual_kib,
        shares: 1000,
        load,
        busy_permille: 900,
        files: Files { hot_kib: 100 * MIB, cold_kib_s: 0, cold_kib_max: 0 },
        swap_kib: 4 * GIB,
        balloon: Fault::None,
        balloon_kib_s: 3 * GIB / 2,
        own_kib: 0,
        traits: Traits {
            daemon: true,
            deflates_on_oom: true,
            reports: false,
            yields: true,
            resident_seen: true,
            lies: false,
        },
    }
}

pub(crate) fn steady(kib: u64) -> Load {
    Load::Steady { kib }
}

/// A guest of 1 GiB suddenly needs 5 GiB, and half of the host is free. Returns the milliseconds
/// until the guest has this memory and no task in it waits. Returns `None` after a quarter of an
/// hour.
pub fn burst(policy: &mut dyn Policy) -> Option<u64> {
    burst_on(host(steady(31 * GIB)), policy, false)
}

/// Returns the time of [`burst`] on a host that the policy has managed for two minutes before.
pub fn burst_on_managed_host(policy: &mut dyn Policy) -> Option<u64> {
    burst_on(host(steady(31 * GIB)), policy, true)
}

/// Returns the time of [`burst`] next to a lying guest, which claims 64 GiB and uses hardly any
/// memory.
pub fn burst_beside_a_liar(policy: &mut dyn Policy) -> Option<u64> {
    let mut world = host(steady(31 * GIB));
    world.come(liar(), Line::default());
    burst_on(world, policy, false)
}

/// Returns a guest that claims to need more memory than the host has.
fn liar() -> Spec {
    let mut spec = plain(64 * GIB, 64 * GIB, steady(10 * MIB));
    spec.files.hot_kib = 0;
    spec.traits.lies = true;
    spec
}

fn burst_on(mut world: World, policy: &mut dyn Policy, is_managed: bool) -> Option<u64> {
    const AT_MS: u64 = 120_000;
    let load =
        Load::Burst { low_kib: 600 * MIB, high_kib: 5 * GIB, from_ms: AT_MS, until_ms: u64::MAX };
    let key = world.come(plain(8 * GIB, GIB, load), Line::default());
    // Without management the size does not change until the burst, whatever surplus the host has.
    while world.now_ms + STEP_MS < AT_MS {
        match is_managed {
            true => world.step(policy),
            false => world.step(&mut Watching(policy)),
        };
    }
    let end_ms = AT_MS + 900_000;
    while world.now_ms < end_ms {
        world.step(policy);
        let met = world
            .member(key)
            .is_some_and(|m| m.guest.actual_kib() >= 5 * GIB && m.guest.is_content(world.now_ms));
        if met {
            return Some(world.now_ms - AT_MS);
        }
    }
    None
}

/// The host's memory in the scene [`caches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Free memory at the end, in thousandths of the host.
    pub free_permille: u64,
    /// Largest deviation from the set point after the host has settled, in thousandths of the host.
    pub off_permille_max: u64,
    /// Cold cache that guests still hold.
    pub cold_kib: u64,
    /// Time that tasks of all guests waited for memory after settling, in milliseconds.
    pub waited_ms: u64,
}

/// Sixteen guests of 6 GiB read files until their memory is full, on 64 GiB, for 40 minutes. The
/// first 20 minutes are for settling.
pub fn caches(policy: &mut dyn Policy) -> Kept {
    const SETTLED_MS: u64 = 1_200_000;
    let mut world = host(steady(2 * GIB));
    for index in 0..16 {
        let load = steady((1000 + index * 20) * MIB);
        let mut spec = plain(6 * GIB, 6 * GIB, load);
        spec.files =
            Files { hot_kib: 600 * MIB, cold_kib_s: (3 + index % 5) * MIB, cold_kib_max: u64::MAX };
        world.come(spec, Line { before_ms: index % 4 * STEP_MS, ..Line::default() });
    }
    let mut kept = Kept { free_permille: 0, off_permille_max: 0, cold_kib: 0, waited_ms: 0 };
    while world.now_ms < 2 * SETTLED_MS {
        world.step(policy);
        kept.free_permille = world.available_kib() * 1000 / world.total_kib;
        if world.now_ms > SETTLED_MS {
            let off = kept.free_permille.abs_diff(200);
            kept.off_permille_max = kept.off_permille_max.max(off);
            kept.waited_ms += world.members.iter().map(|m| m.guest.wait_us / 1000).sum::<u64>();
        }
    }
    kept.cold_kib = world.members.iter().map(|m| m.guest.held.cold_kib).sum();
    kept
}

/// Memory that a guest in need got from a hoarding guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Needed memory.
    pub need_kib: u64,
    /// Part of the need that had arrived after 30 s.
    pub in_30_s_kib: u64,
    /// Part of the need that had arrived after 600 s.
    pub in_600_s_kib: u64,
}

/// The host is at its set point. One guest has 11 of its 12 GiB free; its neighbour of 2 GiB needs
/// 3 GiB more.
pub fn hoarder(policy: &mut dyn Policy) -> Moved {
    const AT_MS: u64 = 60_000;
    let mut world = host(Load::Steady { kib: 0 });
    let hoards = Load::Hoarder { high_kib: 11 * GIB, low_kib: 700 * MIB, from_ms: 20_000 };
    let hoarder = plain(12 * GIB, 12 * GIB, hoards);
    let load =
        Load::Burst { low_kib: GIB, high_kib: 9 * GIB / 2, from_ms: AT_MS, until_ms: u64::MAX };
    let starved = plain(8 * GIB, 2 * GIB, load);
    world.come(hoarder, Line::default());
    let key = world.come(starved, Line { before_ms: 300, ..Line::default() });
    let mut moved = Moved { need_kib: 3 * GIB, in_30_s_kib: 0, in_600_s_kib: 0 };
    while world.now_ms < AT_MS + 600_000 {
        match world.now_ms + STEP_MS < AT_MS {
            true => {
                world.step(&mut Watching(policy));
                // The host is exactly at its set point, whatever the guests have touched.
                world.leave_free(world.total_kib - world.total_kib * 4 / 5);
            }
            false => {
                world.step(policy);
            }
        }
        let has = world.member(key).map_or(0, |m| m.guest.actual_kib());
        let got = has.saturating_sub(2 * GIB).min(moved.need_kib);
        if world.now_ms == AT_MS + 30_000 {
            moved.in_30_s_kib = got;
        }
        moved.in_600_s_kib = got;
    }
    moved
}

/// Shrinks of one guest by a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Squeeze {
    /// Number of shrinks.
    pub shrinks: u64,
    /// Smallest size.
    pub least_kib: u64,
}

/// A guest of 4 GiB has 2 GiB and would use 3 GiB. Another load on the host takes the rest.
pub fn squeeze(policy: &mut dyn Policy) -> Squeeze {
    const AT_MS: u64 = 60_000;
    let mut world = host(steady(56 * GIB));
    let load = Load::Burst {
        low_kib: GIB,
        high_kib: 3 * GIB,
        from_ms: AT_MS - 10_000,
        until_ms: u64::MAX,
    };
    let mut spec = plain(4 * GIB, 2 * GIB, load);
    spec.min_kib = GIB;
    let key = world.come(spec, Line::default());
    let mut squeeze = Squeeze { shrinks: 0, least_kib: u64::MAX };
    while world.now_ms < AT_MS + 600_000 {
        if world.now_ms + STEP_MS < AT_MS {
            world.step(&mut Watching(policy));
            continue;
        }
        world.own = steady(61 * GIB + GIB / 2);
        let round = world.step(policy);
        let Some(member) = world.member(key) else { break };
        squeeze.least_kib = squeeze.least_kib.min(member.guest.actual_kib());
        let orders = round.into_iter().flat_map(|round| round.orders);
        let shrinks = orders.filter(|order| order.target < order.from).count() as u64;
        if member.starved_ms.is_some() {
            squeeze.shrinks += shrinks;
        }
    }
    squeeze
}

/// Result of the scene [`crammed`]: a guest in need gets memory from its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Time until the guest had the memory that it needed and no task in it waited; `None` if
    /// never.
    pub after_ms: Option<u64>,
    /// Shrinks that were carried out.
    pub shrinks: u64,
    /// Number of shrinks that gave the host less than a MiB.
    pub for_nothing: u64,
}

/// Seven guests of 384 MiB share a host without any memory to hand out. The first has 200 MiB and
/// needs 170 MiB more. The other guests have cold cache. They also have free memory, which page
/// reporting has already returned to the host. 16 MiB of each hypervisor count as memory of its
/// guest.
pub fn crammed(ours: &mut Ours) -> Served {
    const AT_MS: u64 = 60_000;
    const NEED_KIB: u64 = 170 * MIB;
    let (low_kib, high_kib) = (20 * MIB, 20 * MIB + NEED_KIB);
    let total = Bytes::mib(4096);
    let (set_point, hysteresis, reserve) = (Bytes::mib(96), Bytes::mib(24), Bytes::mib(32));
    let config = Config { set_point, hysteresis, reserve, ..Config::of_host(total) };
    let mut world = World::new(config, 4 * GIB, steady(0), 1);
    let small = |actual_kib, load| {
        let mut spec = plain(384 * MIB, actual_kib, load);
        (spec.min_kib, spec.own_kib, spec.swap_kib) = (64 * MIB, 16 * MIB, 0);
        spec.busy_permille = 1000;
        spec.files = Files::default();
        spec.traits.reports = true;
        spec
    };
    let load = Load::Burst { low_kib, high_kib, from_ms: AT_MS, until_ms: u64::MAX };
    let first = Spec { swap_kib: 512 * MIB, ..small(200 * MIB, load) };
    let key = world.come(first, Line::default());
    for index in 0..6 {
        let mut spec = small(384 * MIB, steady(low_kib));
        spec.files = Files { hot_kib: 0, cold_kib_s: 20 * MIB, cold_kib_max: 100 * MIB };
        world.come(spec, Line { before_ms: index % 4 * STEP_MS, ..Line::default() });
    }
    let mut served = Served { after_ms: None, shrinks: 0, for_nothing: 0 };
    while world.now_ms < AT_MS + 120_000 {
        if world.now_ms + STEP_MS < AT_MS {
            world.step(&mut Watching(ours));
            world.leave_free(world.config.reserve.0 >> 10);
            continue;
        }
        if world.step(ours).is_some() {
            let ended = ours.last.outcomes.iter();
            for outcome in ended.filter(|o| o.result == Fate::Reached && o.host_got.is_some()) {
                served.shrinks += 1;
                served.for_nothing += u64::from(outcome.host_got < Some(Bytes::mib(1)));
            }
        }
        let met = world.member(key).is_some_and(|m| {
            m.guest.held.anon_kib >= high_kib && m.guest.wait_us == 0 && m.starved_ms.is_none()
        });
        if met {
            served.after_ms = served.after_ms.or(Some(world.now_ms - AT_MS));
        }
    }
    served
}

/// A guest with 6 GiB of hot cache is on a host at its set point. Its neighbour lies, and has
/// already received a part of its claim. Returns the number of shrinks of the guest, and its
/// smallest size.
pub fn liar_beside(policy: &mut dyn Policy) -> Squeeze {
    let mut world = host(steady(0));
    let mut spec = plain(8 * GIB, 8 * GIB, steady(GIB));
    spec.files.hot_kib = 6 * GIB;
    let key = world.come(spec, Line::default());
    world.come(Spec { actual_kib: 32 * GIB, ..liar() }, Line::default());
    let mut squeeze = Squeeze { shrinks: 0, least_kib: u64::MAX };
    while world.now_ms < 660_000 {
        // The policy only watches while the guests read their files.
        let round = match world.now_ms < 60_000 {
            true => world.step(&mut Watching(policy)),
            false => world.step(policy),
        };
        world.leave_free(world.total_kib - world.total_kib * 4 / 5);
        let orders = round.into_iter().flat_map(|round| round.orders);
        let shrinks = orders.filter(|order| order.key == key && order.target < order.from);
        squeeze.shrinks += shrinks.count() as u64;
        let has_kib = world.member(key).map_or(0, |m| m.guest.actual_kib());
        squeeze.least_kib = squeeze.least_kib.min(has_kib);
    }
    squeeze
}

/// Twelve guests under steady load fill a host. Returns the maximum number of reversals of a guest
/// per hour, in hundredths. The first of four hours does not count.
pub fn reversals(policy: &mut dyn Policy) -> u64 {
    const HOUR_MS: u64 = 3_600_000;
    let mut world = host(steady(3 * GIB));
    for index in 0..12 {
        let mut spec = plain(8 * GIB, 6 * GIB, steady((2 * GIB) + index * 200 * MIB));
        spec.files = Files {
            hot_kib: (200 + index * 40) * MIB,
            cold_kib_s: (1 + index % 4) * 2 * MIB,
            cold_kib_max: u64::MAX,
        };
        world.come(spec, Line { before_ms: index % 5 * STEP_MS, ..Line::default() });
    }
    let mut count = Turns::default();
    while world.now_ms < 4 * HOUR_MS {
        let Some(round) = world.step(policy) else { continue };
        count.take(&round.orders, world.now_ms >= HOUR_MS);
    }
    count.most() * 100 / 3
}

/// Returns a host with this many guests, for measurements. Three of four guests are awake, under
/// three kinds of load.
pub fn crowd(count: u64) -> World {
    let total_kib = count * 3 * GIB;
    let config = Config::of_host(Bytes(total_kib << 10));
    let mut world = World::new(config, total_kib, steady(2 * GIB), 1);
    for index in 0..count {
        let load = match index % 4 {
            0 => steady((400 + index % 7 * 200) * MIB),
            1 => Load::Sawtooth { low_kib: 500 * MIB, high_kib: 3 * GIB, period_ms: 20_000 },
            2 => Load::Ramp { low_kib: GIB, high_kib: 3 * GIB, from_ms: 0, until_ms: 60_000 },
            _ => Load::Idle { kib: GIB },
        };
        let mut spec = plain(4 * GIB, (1 + index % 4) * GIB, load);
        spec.files.cold_kib_s = index % 3 * 8 * MIB;
        spec.files.cold_kib_max = GIB;
        spec.traits.daemon = !index.is_multiple_of(5);
        world.come(spec, Line { before_ms: index % 4 * STEP_MS, ..Line::default() });
    }
    world
}

/// Number of changes between growth and shrinking, and the last direction, by guest.
#[derive(Default)]
struct Turns(BTreeMap<Key, (Ordering, u64)>);

impl Turns {
    fn take(&mut self, orders: &[Order], counts: bool) {
        for order in orders {
            let way = order.target.cmp(&order.from);
            let one = self.0.entry(order.key).or_insert((way, 0));
            if way != Ordering::Equal && one.0 != way {
                one.1 += u64::from(counts && one.0 != Ordering::Equal);
                one.0 = way;
            }
        }
    }

    fn most(&self) -> u64 {
        self.0.values().map(|one| one.1).max().unwrap_or(0)
    }
}
