//! Benefit of memory for a guest that refaults. A guest that reads through more data than it could
//! ever cache continues to refault at any size.

use base::Bytes;

/// A trial is full when the grants reach the guest's former size divided by this number. If a full
/// trial has not lowered the refaults, more memory has no benefit.
const TRIED_PART: u64 = 4;
/// The refault rate before a trial, divided by this number, is the smallest fall of the rate that
/// counts.
const LESS_PART: u64 = 8;
/// Time without further grants after a trial without benefit.
const REST_MS: u64 = 600_000;

/// Memory granted to a guest for its refaults, and the effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Benefit {
    trial: Option<Trial>,
    rests_until_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trial {
    had: Bytes,
    given: Bytes,
    /// Refaults a second before the trial, in pages.
    rate: u64,
}

impl Trial {
    fn is_full(&self) -> bool {
        self.given >= Bytes(self.had.0 / TRIED_PART)
    }
}

impl Benefit {
    /// Evaluates a full trial after its memory has arrived. `rate` is the number of pages that the
    /// guest refaults per second.
    pub fn see(&mut self, rate: u64, now_ms: u64) {
        let Some(trial) = self.trial.filter(Trial::is_full) else { return };
        if rate > trial.rate - trial.rate / LESS_PART {
            self.rests_until_ms = now_ms + REST_MS;
        }
        self.trial = None;
    }

    /// Records a grant of `size` to a refaulting guest of size `had`. `rate` is the number of pages
    /// that the guest refaults per second.
    pub fn given(&mut self, size: Bytes, had: Bytes, rate: u64) {
        let trial = self.trial.get_or_insert(Trial { had, given: Bytes::ZERO, rate });
        trial.given = trial.given.plus(size);
    }

    /// Returns true if more memory may help. After a full trial, the result is false until the
    /// effect is known.
    pub fn is_likely(&self, now_ms: u64) -> bool {
        now_ms >= self.rests_until_ms && !self.trial.is_some_and(|trial| trial.is_full())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refaulting_guest_without_benefit_rests_for_10_min() {
        for (rate, is_likely) in [(100, false), (88, true)] {
            let mut benefit = Benefit::default();
            benefit.given(Bytes::mib(24), Bytes::mib(100), 100);
            benefit.see(100, 1_000);
            assert!(benefit.is_likely(1_000), "the grant is too small to judge");
            benefit.given(Bytes::mib(1), Bytes::mib(124), 100);
            assert!(!benefit.is_likely(1_500), "the trial is full");
            benefit.see(rate, 2_000);
            assert_eq!(benefit.is_likely(2_000), is_likely);
            assert!(benefit.is_likely(602_000));
        }
    }
}
