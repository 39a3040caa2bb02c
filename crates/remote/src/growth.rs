//! Counters that never go back, from numbers that do.

use base::is_small_fall;
use std::collections::BTreeMap;

/// Sums of what numbers have grown by. A number that falls a little is read a little early; one
/// that falls to less than half begins again; one that is gone takes nothing with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Growth {
    last: BTreeMap<String, u64>,
    sums: BTreeMap<&'static str, u64>,
}

impl Growth {
    /// Adds what a number has grown by to a sum, and gives the sum. What it was at first counts.
    pub(crate) fn add(&mut self, sum: &'static str, name: &str, now: u64) {
        let before = self.last.get(name).copied();
        let (more, last) = match before {
            Some(before) if now >= before => (now - before, now),
            Some(before) if is_small_fall(before, now) => (0, before),
            Some(_) | None => (now, now),
        };
        match self.last.get_mut(name) {
            Some(kept) => *kept = last,
            None => drop(self.last.insert(name.to_owned(), last)),
        }
        let sum = self.sums.entry(sum).or_default();
        *sum = sum.saturating_add(more);
    }

    /// A sum, if anything was ever added to it.
    pub(crate) fn sum(&self, sum: &'static str) -> Option<u64> {
        self.sums.get(sum).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_grows_whatever_its_numbers_do() {
        let mut growth = Growth::default();
        let mut sum = |name: &str, now| {
            growth.add("all", name, now);
            growth.sum("all").unwrap()
        };
        assert_eq!(sum("a", 100), 100);
        assert_eq!(sum("b", 50), 150, "another begins with what it has");
        assert_eq!(sum("a", 90), 150, "a small fall is none");
        assert_eq!(sum("a", 105), 155);
        assert_eq!(sum("a", 10), 165, "it began again");
        assert_eq!(sum("a", 12), 167, "b is gone, and takes nothing with it");
        assert_eq!(growth.sum("none"), None);
    }
}
