//! Monotonic counters, computed from numbers that may fall.

use base::is_small_fall;
use std::collections::BTreeMap;

/// Sums of the growth of counters. A counter that falls by at most half counts as unchanged,
/// because its parts may have been read at different moments. A counter that falls further has
/// restarted. A counter that is gone does not reduce the sum.
#[derive(Clone, Debug, Default)]
pub(crate) struct Growth(BTreeMap<&'static str, Sum>);

#[derive(Clone, Debug, Default)]
struct Sum {
    total: u64,
    /// Last known counters, by device.
    last: BTreeMap<u16, u64>,
    /// Counters of devices that were missing in the last query, but not in the query before.
    missed: BTreeMap<u16, u64>,
}

impl Growth {
    /// Adds the growth of counters to a sum. A new counter counts in full. Devices that are missing
    /// in two queries in a row are dropped. A sum without any report stays unchanged.
    pub(crate) fn add(&mut self, sum: &'static str, told: &[(u16, u64)]) {
        let sum = self.0.entry(sum).or_default();
        let mut last = BTreeMap::new();
        for (device, now) in told.iter().copied() {
            let of_before = sum.last.get(&device).or_else(|| sum.missed.get(&device));
            let before = last.get(&device).or(of_before).copied();
            let (more, kept) = match before {
                Some(before) if now >= before => (now - before, now),
                Some(before) if is_small_fall(before, now) => (0, before),
                Some(_) | None => (now, now),
            };
            last.insert(device, kept);
            sum.total = sum.total.saturating_add(more);
        }
        sum.missed = std::mem::replace(&mut sum.last, last);
        sum.missed.retain(|device, _| !sum.last.contains_key(device));
    }

    /// Returns a sum, if anything was ever added to it.
    pub(crate) fn sum(&self, sum: &'static str) -> Option<u64> {
        self.0.get(sum).map(|sum| sum.total)
    }

    /// Returns the number of counters that are kept for the next query.
    pub(crate) fn numbers(&self) -> usize {
        self.0.values().map(|sum| sum.last.len() + sum.missed.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_never_falls_when_its_counters_fall() {
        let mut growth = Growth::default();
        let mut sum = |told: &[(u16, u64)]| {
            growth.add("all", told);
            growth.sum("all").unwrap()
        };
        assert_eq!(sum(&[(0, 100)]), 100);
        assert_eq!(sum(&[(0, 100), (1, 50)]), 150, "a new number counts whole");
        assert_eq!(sum(&[(0, 90), (1, 50)]), 150, "a small fall is none");
        assert_eq!(sum(&[(0, 105), (1, 50)]), 155);
        assert_eq!(sum(&[(0, 10), (1, 50)]), 165, "it began again");
        assert_eq!(sum(&[(0, 12)]), 167, "1 is gone, and takes nothing with it");
        assert_eq!(sum(&[(0, 12)]), 167);
        assert_eq!(growth.numbers(), 1);
        assert_eq!(growth.sum("none"), None);
    }

    #[test]
    fn finding2_06_counter_missing_once_counts_once() {
        let mut growth = Growth::default();
        let mut sum = |told: &[(u16, u64)]| {
            growth.add("all", told);
            growth.sum("all").unwrap()
        };
        assert_eq!(sum(&[(0, 100), (1, 50)]), 150);
        assert_eq!(sum(&[(0, 100)]), 150);
        assert_eq!(sum(&[(0, 100), (1, 60)]), 160, "it goes on where it was");
        sum(&[(0, 100)]);
        sum(&[(0, 100)]);
        assert_eq!(sum(&[(0, 100), (1, 60)]), 220, "after two readings it is another device");
    }
}
