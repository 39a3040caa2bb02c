//! State of all subjects at one moment, and intervals between two moments.

use crate::field::{Field, Kind};
use crate::fields::{GuestField, HostField, ProcessField, TierField};
use crate::identity::{GuestIdentity, ProcessName};
use crate::row::Row;
use std::collections::BTreeMap;

/// Raw fields of all subjects at one moment. A guest that has not run since the last moment may be
/// left out, because nothing has changed in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time in milliseconds since 1970.
    pub at_ms: i64,
    /// Fields of the host.
    pub host: Row<HostField>,
    /// Fields of the guests.
    pub guests: BTreeMap<GuestIdentity, Row<GuestField>>,
    /// Fields of tiers of memory by name, such as `/dev/zram0` or `zswap`.
    pub tiers: BTreeMap<String, Row<TierField>>,
    /// Fields of guests' processes, if their daemons have reported them since the last moment.
    pub processes: BTreeMap<GuestIdentity, BTreeMap<ProcessName, Row<ProcessField>>>,
}

/// Fields over a span of time: the growth of a counter, the mean of a gauge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over<F> {
    /// Recorded part of the span.
    pub covered_ms: u64,
    /// The values.
    pub row: Row<F>,
}

impl<F: Field> Default for Over<F> {
    fn default() -> Over<F> {
        Over { covered_ms: 0, row: Row::default() }
    }
}

/// Fields in a span of time. A part of the span that is not covered is a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Start in milliseconds since 1970.
    pub from_ms: i64,
    /// Length of the span.
    pub length_ms: u64,
    /// Fields of the host.
    pub host: Over<HostField>,
    /// Fields of the guests.
    pub guests: BTreeMap<GuestIdentity, Over<GuestField>>,
    /// Fields of the tiers of memory.
    pub tiers: BTreeMap<String, Over<TierField>>,
    /// Fields of guests' processes.
    pub processes: BTreeMap<GuestIdentity, BTreeMap<ProcessName, Over<ProcessField>>>,
}

/// Parts of an interval that are wanted. The host is always included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// True if guests are requested.
    pub guests: bool,
    /// True if tiers of memory are requested.
    pub tiers: bool,
    /// True if processes are requested, the largest part of a recording.
    pub processes: bool,
}

impl Parts {
    /// All parts.
    pub const ALL: Parts = Parts { guests: true, tiers: true, processes: true };
}

impl<F: Field> Over<F> {
    /// Returns the fields between two rows. A restarted counter is counted from 0.
    pub fn between(before: &Row<F>, now: &Row<F>, length_ms: u64) -> Over<F> {
        let row = now.filter_map(|field, now| match field.kind() {
            Kind::Gauge => Some(now),
            Kind::Counter => before.get(field).map(|then| now.checked_sub(then).unwrap_or(now)),
        });
        Over { covered_ms: length_ms, row }
    }

    /// Adds a later span: counters are summed, gauges weighted by covered time.
    pub fn add(&mut self, later: &Over<F>) {
        let weights = (self.covered_ms.max(1), later.covered_ms.max(1));
        self.row.merge(&later.row, |field, a, b| match field.kind() {
            Kind::Counter => a.saturating_add(b),
            Kind::Gauge => mean(a, b, weights),
        });
        self.covered_ms = self.covered_ms.saturating_add(later.covered_ms);
    }

    /// Adds the fields of another subject over the same time. Counters and gauges are both summed.
    pub fn add_concurrent(&mut self, other: &Over<F>) {
        self.row.merge(&other.row, |_, a, b| a.saturating_add(b));
        self.covered_ms = self.covered_ms.max(other.covered_ms);
    }

    /// Returns the rate of a counter per second.
    pub fn a_second(&self, field: F) -> Option<f64> {
        let value = self.row.get(field)? as f64;
        (self.covered_ms > 0).then(|| value * 1000.0 / self.covered_ms as f64)
    }

    /// Returns the value of a gauge, or the growth of a counter.
    pub fn get(&self, field: F) -> Option<u64> {
        self.row.get(field)
    }
}

/// Returns the mean of two values, weighted by covered time.
fn mean(a: u64, b: u64, (wa, wb): (u64, u64)) -> u64 {
    if a == b {
        return a;
    }
    // Most products fit into 64 bits, and 128-bit division is costly.
    let sum = a.checked_mul(wa).zip(b.checked_mul(wb)).and_then(|(a, b)| a.checked_add(b));
    if let (Some(sum), Some(weight)) = (sum, wa.checked_add(wb)) {
        return sum / weight;
    }
    let sum = u128::from(a) * u128::from(wa) + u128::from(b) * u128::from(wb);
    u64::try_from(sum / (u128::from(wa) + u128::from(wb))).unwrap_or(u64::MAX)
}

fn all_between<K: Ord + Clone, F: Field>(
    before: &BTreeMap<K, Row<F>>,
    now: &BTreeMap<K, Row<F>>,
    length_ms: u64,
) -> BTreeMap<K, Over<F>> {
    now.iter()
        .filter_map(|(key, row)| {
            Some((key.clone(), Over::between(before.get(key)?, row, length_ms)))
        })
        .collect()
}

fn add_all<K: Ord + Clone, F: Field>(sum: &mut BTreeMap<K, Over<F>>, later: &BTreeMap<K, Over<F>>) {
    for (key, over) in later {
        sum.entry(key.clone()).or_default().add(over);
    }
}

impl Interval {
    /// Returns the interval between two moments. A guest in only one of the moments is left out.
    pub fn between(before: &Moment, now: &Moment) -> Interval {
        let length_ms = u64::try_from(now.at_ms.saturating_sub(before.at_ms)).unwrap_or(0);
        let nobody = BTreeMap::new();
        Interval {
            from_ms: before.at_ms,
            length_ms,
            host: Over::between(&before.host, &now.host, length_ms),
            guests: all_between(&before.guests, &now.guests, length_ms),
            tiers: all_between(&before.tiers, &now.tiers, length_ms),
            processes: now
                .processes
                .iter()
                .map(|(who, processes)| {
                    let earlier = before.processes.get(who).unwrap_or(&nobody);
                    (who.clone(), all_between(earlier, processes, length_ms))
                })
                .collect(),
        }
    }

    /// Adds a later interval. The sum spans both intervals, and the time between them is a gap.
    pub fn add(&mut self, later: &Interval) {
        if self.length_ms == 0 {
            self.from_ms = later.from_ms;
        }
        let end = |one: &Interval| {
            one.from_ms.saturating_add(i64::try_from(one.length_ms).unwrap_or(i64::MAX))
        };
        let to_ms = end(later).max(end(self));
        self.length_ms = u64::try_from(to_ms.saturating_sub(self.from_ms)).unwrap_or(0);
        self.host.add(&later.host);
        add_all(&mut self.guests, &later.guests);
        add_all(&mut self.tiers, &later.tiers);
        for (who, processes) in &later.processes {
            add_all(self.processes.entry(who.clone()).or_default(), processes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_ms: i64, run: u64, resident: u64) -> Moment {
        let mut row = Row::default();
        row.set(GuestField::VcpuRun, Some(run));
        row.set(GuestField::Resident, Some(resident));
        let who = GuestIdentity { name: "g1".into(), ..GuestIdentity::default() };
        Moment { at_ms, guests: [(who, row)].into(), ..Moment::default() }
    }

    #[test]
    fn counters_grow_and_gauges_are_weighed() {
        let mut sum = Interval::between(&moment(0, 100, 10), &moment(1000, 150, 20));
        sum.add(&Interval::between(&moment(1000, 150, 20), &moment(4000, 180, 40)));
        assert_eq!((sum.from_ms, sum.length_ms), (0, 4000));
        let guest = sum.guests.values().next().unwrap();
        assert_eq!(guest.get(GuestField::VcpuRun), Some(80));
        assert_eq!(guest.get(GuestField::Resident), Some(35));
        assert_eq!(guest.a_second(GuestField::VcpuRun), Some(20.0));
        assert_eq!(guest.get(GuestField::Exits), None);
    }

    #[test]
    fn a_gap_is_spanned_and_not_covered() {
        let mut sum = Interval::between(&moment(0, 0, 1), &moment(1000, 10, 1));
        sum.add(&Interval::between(&moment(9000, 50, 1), &moment(10_000, 60, 1)));
        assert_eq!(sum.length_ms, 10_000);
        let guest = sum.guests.values().next().unwrap();
        assert_eq!((guest.covered_ms, guest.get(GuestField::VcpuRun)), (2000, Some(20)));
    }

    #[test]
    fn restarted_counter_counts_from_zero() {
        let now = Interval::between(&moment(0, 100, 1), &moment(1000, 7, 1));
        let guest = now.guests.values().next().unwrap();
        assert_eq!(guest.get(GuestField::VcpuRun), Some(7));
    }
}
