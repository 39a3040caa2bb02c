//! Growth of counters of 32 or 64 bits since they were first seen.

use base::is_small_fall;
use std::collections::BTreeMap;

/// Value above which a counter of 32 bits may soon wrap, and value below which it may just have
/// wrapped.
const HIGH: u64 = 3 << 30;
const LOW: u64 = 1 << 30;

/// Total growth of counters that appear and disappear. The first value of a counter does not count,
/// because the counter may have reached this value long before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Growth {
    before: BTreeMap<u32, u64>,
    sum: u64,
}

impl Growth {
    /// Counts the growth of the counter with this number up to its current value.
    pub(crate) fn take(&mut self, number: u32, now: u64) {
        let before = self.before.get(&number).copied();
        let (more, kept) = match before {
            None => (0, now),
            Some(before) if now >= before => (now - before, now),
            // The counter has wrapped at 32 bits.
            Some(before) if before >> 32 == 0 && before >= HIGH && now < LOW => {
                ((1 << 32) - before + now, now)
            }
            // The counter fell slightly, as idle time occasionally does, so the previous value
            // stays.
            Some(before) if is_small_fall(before, now) => (0, before),
            // The counter has restarted.
            Some(_) => (now, now),
        };
        self.before.insert(number, kept);
        self.sum = self.sum.saturating_add(more);
    }

    /// Returns the total growth, or `None` if no counter was ever seen.
    pub(crate) fn sum(&self) -> Option<u64> {
        (!self.before.is_empty()).then_some(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_what_happened_since_its_counters_were_seen() {
        let mut growth = Growth::default();
        assert_eq!(growth.sum(), None);
        let mut sum = |number, now| {
            growth.take(number, now);
            growth.sum()
        };
        assert_eq!(sum(0, 1_000_000), Some(0));
        assert_eq!(sum(0, 1_000_010), Some(10));
        assert_eq!(sum(7, 5_000_000), Some(10), "another CPU was not seen before");
        assert_eq!(sum(7, 5_000_001), Some(11));
        assert_eq!(sum(0, 1_000_009), Some(11), "a little early");
        assert_eq!(sum(0, 1_000_012), Some(13));
        assert_eq!(sum(0, 300), Some(313), "the guest was started again");
        assert_eq!(sum(1, u64::from(u32::MAX) - 9), Some(313));
        assert_eq!(sum(1, 5), Some(328), "the counter wrapped at 32 bits");
        assert_eq!(sum(2, 1 << 40), Some(328));
        assert_eq!(sum(2, 1), Some(329), "64 bits have no such end");
    }
}
