//! Actions of guests' own rules that reverse each other while the load stays the same.
//!
//! Rules that follow a changing load have to reverse their actions. A reversal therefore counts
//! only if the load at both actions was about equal.

use base::Bytes;
use model::{GuestField as G, GuestIdentity, Moment, Row};
use std::collections::BTreeMap;

/// Difference below which two loads count as equal, in thousandths of a CPU.
const SAME_CPU_PERMILLE: u64 = 500;
/// Difference of used memory below which two values count as equal, in thousandths of the guest's
/// memory.
const SAME_MEMORY_PERMILLE: u64 = 50;
/// Maximum time between two samples that are compared.
const GAP_MS: i64 = 30_000;

/// Reversals of a guest's rules under an equal load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swings {
    /// Time with data.
    pub covered_ms: u64,
    /// Number of reversed CPU actions: a CPU was plugged and unplugged again, or the reverse.
    pub cpus: u64,
    /// Number of reversed memory actions: memory was given up and taken back, or the reverse.
    pub memory: u64,
}

impl Swings {
    /// Converts a count to a rate per hour.
    pub fn an_hour(&self, times: u64) -> u64 {
        times.saturating_mul(3_600_000).checked_div(self.covered_ms).unwrap_or(0)
    }
}

/// Last action of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    action: Option<(Direction, u64)>,
    turns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Last {
    /// Adds the actions between two samples. `load` is the load between the samples.
    fn add(&mut self, ups: u64, downs: u64, load: u64, same: u64) {
        // Actions in both directions between the same two samples were made at the same load.
        self.turns = self.turns.saturating_add(ups.min(downs).saturating_mul(2));
        let direction = match (ups > downs, downs > ups) {
            (true, _) => Direction::Up,
            (_, true) => Direction::Down,
            _ => return,
        };
        let before = self.action.replace((direction, load));
        let is_turn =
            before.is_some_and(|(other, at)| other != direction && at.abs_diff(load) < same);
        self.turns = self.turns.saturating_add(u64::from(is_turn));
    }
}

#[derive(Clone, Debug, Default)]
struct Watched {
    before: Option<(i64, Row<G>)>,
    covered_ms: u64,
    cpus: Last,
    memory: Last,
}

/// Watches the rules of all guests, sample by sample.
#[derive(Clone, Debug, Default)]
pub struct SwingWatch {
    guests: BTreeMap<GuestIdentity, Watched>,
}

impl SwingWatch {
    /// Adds the next samples.
    pub fn add(&mut self, moment: Moment) {
        for (who, row) in moment.guests {
            self.guests.entry(who).or_default().add(moment.at_ms, row);
        }
    }

    /// Returns the reversals of a guest, across its boots.
    pub fn of(&self, name: &str, uuid: &str) -> Swings {
        let mut sum = Swings::default();
        let is_it = |who: &GuestIdentity| who.name == name && who.uuid == uuid;
        for (_, watched) in self.guests.iter().filter(|(who, _)| is_it(who)) {
            sum.covered_ms = sum.covered_ms.saturating_add(watched.covered_ms);
            sum.cpus = sum.cpus.saturating_add(watched.cpus.turns / 2);
            sum.memory = sum.memory.saturating_add(watched.memory.turns / 2);
        }
        sum
    }
}

impl Watched {
    fn add(&mut self, at_ms: i64, row: Row<G>) {
        let Some((before_ms, before)) = self.before.replace((at_ms, row.clone())) else { return };
        let passed_ms = at_ms.saturating_sub(before_ms);
        if !(1..=GAP_MS).contains(&passed_ms) {
            return;
        }
        let passed_ms = passed_ms.unsigned_abs();
        self.covered_ms = self.covered_ms.saturating_add(passed_ms);
        let since = |field| {
            let (now, before) = (row.get(field), before.get(field));
            now.zip(before).map(|(now, before)| now.saturating_sub(before))
        };
        let times = |field| since(field).unwrap_or(0);
        // Time in which a virtual CPU waited for a CPU is load as well.
        if let Some(ran) = since(G::VcpuRun) {
            let load = ran.saturating_add(times(G::VcpuDelay)) / 1_000 / passed_ms;
            self.cpus.add(times(G::OwnPlugs), times(G::OwnUnplugs), load, SAME_CPU_PERMILLE);
        }
        let sizes = row.get(G::Actual).zip(row.get(G::OwnAvailable)).zip(row.get(G::Memory));
        if let Some(((actual, available), memory)) = sizes {
            let used = actual.saturating_sub(available);
            let same = Bytes(memory).permille(SAME_MEMORY_PERMILLE).0;
            self.memory.add(times(G::OwnShrinks), times(G::OwnGrows), used, same);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Watches a guest of 256 MiB for ten minutes, second by second.
    fn watched(at: impl Fn(u64, &mut Row<G>)) -> Swings {
        let mut watch = SwingWatch::default();
        for second in 0..=600 {
            let mut row = Row::default();
            row.extend([
                (G::Memory, Some(256 * MIB)),
                (G::Actual, Some(256 * MIB)),
                (G::OwnAvailable, Some(100 * MIB)),
                (G::VcpuRun, Some(0)),
            ]);
            at(second, &mut row);
            let who = GuestIdentity { name: "g1".into(), ..GuestIdentity::default() };
            let guests = [(who, row)].into();
            watch.add(Moment {
                at_ms: (second * 1_000).cast_signed(),
                guests,
                ..Moment::default()
            });
        }
        watch.of("g1", "")
    }

    /// Sets a load of two CPUs for 12 of every 30 seconds, like the load that `pinhead up` starts
    /// in its first guest. Rules plug a CPU when the load comes, and unplug it when the load is
    /// gone.
    fn comes_and_goes(second: u64, row: &mut Row<G>) {
        let (whole, part) = (second / 30, second % 30);
        row.set(G::VcpuRun, Some((whole * 12 + part.min(12)) * 2_000_000_000));
        row.set(G::OwnPlugs, Some(whole + u64::from(part >= 3)));
        row.set(G::OwnUnplugs, Some(whole + u64::from(part >= 16)));
    }

    #[test]
    fn rules_that_follow_a_changing_load_do_not_swing() {
        let found = watched(comes_and_goes);
        assert_eq!((found.cpus, found.memory, found.covered_ms), (0, 0, 600_000));
    }

    #[test]
    fn actions_that_reverse_at_a_steady_load_are_swings() {
        let found = watched(|second, row| {
            row.set(G::VcpuRun, Some(second * 900_000_000));
            row.set(G::OwnPlugs, Some(second.div_ceil(4)));
            row.set(G::OwnUnplugs, Some((second + 2) / 4));
        });
        assert_eq!((found.cpus, found.an_hour(found.cpus)), (149, 894));
        let both = watched(|second, row| {
            row.set(G::OwnPlugs, Some(second / 20));
            row.set(G::OwnUnplugs, Some(second / 20));
        });
        assert_eq!(both.an_hour(both.cpus), 180, "plugged and unplugged within a second");
    }

    #[test]
    fn memory_swings_count_only_while_its_use_is_steady() {
        let with_use = |used: fn(u64) -> u64| {
            watched(move |second, row| {
                row.set(G::OwnAvailable, Some((256 - used(second)) * MIB));
                row.set(G::OwnGrows, Some(second.div_ceil(10)));
                row.set(G::OwnShrinks, Some((second + 5) / 10));
            })
        };
        assert_eq!(with_use(|_| 100).memory, 59);
        assert_eq!(with_use(|second| if second % 10 < 5 { 60 } else { 190 }).memory, 0);
    }
}
