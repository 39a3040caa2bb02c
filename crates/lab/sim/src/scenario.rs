//! Scenarios: a seed selects the features, and then the guests and events.
//!
//! Each feature is on or off for a whole run, so that rare combinations come up often. A failure
//! may need certain features, so its message names all features that are on.

use crate::balloon::Fault;
use crate::guest::{STEP_MS, Spec, Traits};
use crate::load::{Files, Load};
use crate::world::{Event, Line, Rival, World};
use base::{Bytes, Rng};
use policy::arbiter::{Config, Key};

const MIB: u64 = 1 << 10;
const GIB: u64 = 1 << 20;
/// Length of a scenario.
pub const LENGTH_MS: u64 = 600_000;
/// Time after which no new events occur, so that the host and its guests can settle.
pub const CALM_MS: u64 = 300_000;

macro_rules! options {
    ($($(#[doc = $doc:literal])* $name:ident),+ $(,)?) => {
        /// The features of a scenario.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Options { $($(#[doc = $doc])* pub $name: bool),+ }

        impl Options {
            fn of(rng: &mut Rng) -> Options {
                Options { $($name: rng.permille(500)),+ }
            }

            /// Returns the names of the features that are on.
            pub fn names(&self) -> Vec<&'static str> {
                let all = [$((self.$name, stringify!($name))),+];
                all.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect()
            }
        }
    };
}

options! {
    /// True if guests have swap space.
    swap,
    /// True if some guests are without the daemon.
    outside,
    /// True if some balloons never move.
    stuck,
    /// True if some balloons stop at times.
    intermittent,
    /// True if some balloons are slow.
    slow,
    /// True if another manager moves a balloon for a time.
    rival,
    /// True if guests reboot.
    reboots,
    /// True if guests come and go.
    traffic,
    /// True if samples are lost.
    lost,
    /// True if samples come late.
    late,
    /// True if some balloons give the host nothing.
    no_yield,
    /// True if some guests report free pages to the host.
    reports,
    /// True if the host does not see the resident memory of some guests.
    unseen,
    /// True if other processes of the host want memory, too.
    neighbours,
    /// True if some guests hoard memory that they do not need.
    hoarders,
    /// True if some guests suddenly need much memory.
    bursts,
    /// True if some guests never come to rest.
    restless,
    /// True if some guests' kernels kill tasks when memory runs out, instead of deflating the
    /// balloon.
    killers,
    /// True if memory is reserved for guests to come.
    reservations,
    /// True if the guests' maximum sizes together may exceed the host's memory.
    overcommit,
    /// True if some guests sleep.
    sleepers,
    /// True if most guests read files that fill their cache.
    readers,
}

/// A host with its guests at the start, and the future events.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed.
    pub seed: u64,
    /// Features.
    pub options: Options,
    /// Number of guests that claim to be in need and are not.
    pub liars: usize,
    /// Host.
    pub world: World,
    /// Reservations: the id, and the time by which the reservation must be answered.
    pub reservations: Vec<(u64, u64)>,
}

impl Scenario {
    /// Creates the scenario of this seed.
    pub fn new(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed);
        let options = Options::of(&mut rng);
        let total_kib = rng.within(8, 64) * GIB;
        let own_kib = total_kib * rng.within(20, 100) / 1000;
        let own = match options.neighbours {
            true => Load::Burst {
                low_kib: own_kib,
                high_kib: own_kib + total_kib * rng.within(50, 250) / 1000,
                from_ms: rng.within(60, 150) * 1000,
                until_ms: rng.within(160, 290) * 1000,
            },
            false => Load::Steady { kib: own_kib },
        };
        let config = Config::of_host(Bytes(total_kib << 10));
        let world = World::new(config, total_kib, own, rng.draw());
        let mut made = Scenario { seed, options, liars: 0, world, reservations: Vec::new() };
        let count = rng.within(2, 8);
        let each_kib = match options.overcommit {
            true => total_kib * rng.within(1000, 1600) / 1000 / count,
            false => total_kib * rng.within(500, 850) / 1000 / count,
        };
        for _ in 0..count {
            let spec = made.guest(&mut rng, count, each_kib);
            let line = made.line(&mut rng);
            made.world.come(spec, line);
        }
        made.happenings(&mut rng, count, each_kib);
        made.lies();
        made.hypervisors();
        made
    }

    /// Makes some guests lie in half of all scenarios. Lying guests are drawn separately, so the
    /// rest of a scenario is the same with and without them.
    fn lies(&mut self) {
        let mut rng = Rng::new(!self.seed);
        if rng.permille(500) {
            return;
        }
        for member in &mut self.world.members {
            member.guest.spec.traits.lies = rng.permille(300);
            self.liars += usize::from(member.guest.spec.traits.lies);
        }
    }

    /// In half of all scenarios, gives each hypervisor memory that counts as its guest's memory.
    /// This memory is drawn separately, too.
    fn hypervisors(&mut self) {
        let mut rng = Rng::new(self.seed.rotate_left(32));
        if rng.permille(500) {
            return;
        }
        for member in &mut self.world.members {
            member.guest.spec.own_kib = rng.within(1, 60) * MIB;
        }
    }

    fn guest(&self, rng: &mut Rng, count: u64, each_kib: u64) -> Spec {
        let on = self.options;
        let max_kib = (each_kib * rng.within(600, 1400) / 1000).max(GIB / 2) / MIB * MIB;
        // All initial needs fit into the host. Later needs may not.
        let part_kib = self.world.total_kib * rng.within(500, 950) / 1000 / count;
        let fit_kib = max_kib.min(part_kib);
        let low_kib = fit_kib * rng.within(150, 600) / 1000;
        let high_kib = (low_kib + fit_kib * rng.within(200, 1200) / 1000).min(max_kib * 85 / 100);
        let high_kib = high_kib.max(low_kib);
        let actual_kib = match rng.permille(400) {
            true => (low_kib + fit_kib / 4).max(max_kib * 3 / 10).min(max_kib) / MIB * MIB,
            false => max_kib,
        };
        let from_ms = rng.within(30, 120) * 1000;
        let until_ms = rng.within(130, 290) * 1000;
        let mut load = match rng.within(0, 2) {
            0 => Load::Ramp { low_kib, high_kib, from_ms, until_ms },
            _ => Load::Steady { kib: low_kib },
        };
        if on.bursts && rng.permille(400) {
            load = Load::Burst { low_kib, high_kib, from_ms, until_ms };
        }
        if on.hoarders && rng.permille(300) {
            load = Load::Hoarder { high_kib: max_kib * 8 / 10, low_kib, from_ms: from_ms / 2 };
        }
        if on.sleepers && rng.permille(300) {
            load = Load::Idle { kib: low_kib };
        }
        if on.restless && rng.permille(300) {
            load = Load::Sawtooth { low_kib, high_kib, period_ms: rng.within(20, 200) * 1000 };
        }
        let reads = on.readers && rng.permille(700);
        let files = Files {
            hot_kib: fit_kib * rng.within(20, 150) / 1000,
            cold_kib_s: if reads { rng.within(1, 60) * MIB } else { 0 },
            cold_kib_max: if rng.permille(500) { u64::MAX } else { GIB },
        };
        let mut balloon = Fault::None;
        if on.intermittent && rng.permille(200) {
            balloon = Fault::Intermittent { period_ms: rng.within(4, 60) * 1000 };
        }
        if on.stuck && rng.permille(200) {
            balloon = Fault::Stuck;
        }
        let slow = on.slow && rng.permille(300);
        Spec {
            min_kib: (max_kib * rng.within(50, 300) / 1000).max(256 * MIB).min(max_kib),
            max_kib,
            actual_kib,
            shares: rng.within(1, 4) as u32 * 500,
            load,
            busy_permille: rng.within(300, 1000),
            files,
            swap_kib: if on.swap { max_kib / 2 } else { 0 },
            balloon,
            balloon_kib_s: if slow {
                rng.within(20, 100) * MIB
            } else {
                rng.within(900, 2000) * MIB
            },
            own_kib: 0,
            traits: Traits {
                daemon: !(on.outside && rng.permille(400)),
                deflates_on_oom: !(on.killers && rng.permille(500)),
                reports: on.reports && rng.permille(500),
                yields: !(on.no_yield && rng.permille(250)),
                resident_seen: !(on.unseen && rng.permille(300)),
                lies: false,
            },
        }
    }

    fn line(&self, rng: &mut Rng) -> Line {
        Line {
            lost_permille: if self.options.lost { rng.within(0, 300) } else { 0 },
            late_permille: if self.options.late { rng.within(0, 400) } else { 0 },
            late_ms: rng.within(1, 40) * STEP_MS,
            before_ms: rng.within(0, 3) * STEP_MS,
        }
    }

    fn happenings(&mut self, rng: &mut Rng, count: u64, each_kib: u64) {
        let on = self.options;
        let mut events = Vec::new();
        let at = |rng: &mut Rng| rng.within(20, 280) * 1000;
        if on.rival {
            let member = rng.within(0, count - 1) as usize;
            let spec = self.world.members[member].guest.spec;
            let from_ms = rng.within(40, 120) * 1000;
            self.world.members[member].rival = Some(Rival {
                from_ms,
                until_ms: from_ms + rng.within(100, 170) * 1000,
                period_ms: rng.within(12, 25) * 1000,
                sizes_kib: [spec.max_kib, spec.max_kib * rng.within(800, 900) / 1000],
            });
        }
        if on.reboots {
            for _ in 0..rng.within(1, 3) {
                events.push((at(rng), Event::Reboot(Key(rng.within(1, count)))));
            }
        }
        if on.traffic {
            for _ in 0..rng.within(1, 3) {
                let spec = self.guest(rng, count, each_kib / 2);
                let line = self.line(rng);
                events.push((at(rng), Event::Come(spec, line)));
                events.push((at(rng), Event::Go(Key(rng.within(1, count)))));
            }
        }
        if on.reservations {
            for id in 0..rng.within(1, 3) {
                let (at_ms, within_ms) = (at(rng), rng.within(1, 20) * 1000);
                let kib = self.world.total_kib * rng.within(20, 300) / 1000;
                self.reservations.push((id, at_ms + within_ms));
                events.push((at_ms, Event::Reserve { id, kib, within_ms }));
            }
        }
        events.sort_by_key(|(at_ms, _)| std::cmp::Reverse(*at_ms));
        self.world.events = events;
    }
}
