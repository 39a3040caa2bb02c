//! Whether memory helps a guest that reads again what it dropped: one that reads through more than
//! it could ever keep goes on doing so, whatever it is given.

use counters::Bytes;

/// A guest that was given this part of what it had and reads as much as before is not helped.
const TRIED_PART: u64 = 4;
/// It reads less if it reads at least this part less.
const LESS_PART: u64 = 8;
/// So long nothing more is given to one that it did not help.
const REST_MS: u64 = 600_000;

/// What was given to a guest for what it reads again, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Benefit {
    trial: Option<Trial>,
    rests_until_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trial {
    had: Bytes,
    given: Bytes,
    /// Pages a second that it read again before.
    rate: u64,
}

impl Trial {
    fn is_full(&self) -> bool {
        self.given >= Bytes(self.had.0 / TRIED_PART)
    }
}

impl Benefit {
    /// What it was given has come, and it reads so many pages a second again.
    pub fn see(&mut self, rate: u64, now_ms: u64) {
        let Some(trial) = self.trial.filter(Trial::is_full) else { return };
        if rate > trial.rate - trial.rate / LESS_PART {
            self.rests_until_ms = now_ms + REST_MS;
        }
        self.trial = None;
    }

    /// It had `had` and was given more, because it read so many pages a second again.
    pub fn given(&mut self, size: Bytes, had: Bytes, rate: u64) {
        let trial = self.trial.get_or_insert(Trial { had, given: Bytes::ZERO, rate });
        trial.given = trial.given.plus(size);
    }

    /// Whether more may help it, as far as is known. Once enough was given to tell, that is seen
    /// first.
    pub fn is_likely(&self, now_ms: u64) -> bool {
        now_ms >= self.rests_until_ms && !self.trial.is_some_and(|trial| trial.is_full())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_as_much_as_before_with_a_quarter_more_is_not_helped_for_10_min() {
        for (rate, is_likely) in [(100, false), (88, true)] {
            let mut benefit = Benefit::default();
            benefit.given(Bytes::mib(24), Bytes::mib(100), 100);
            benefit.see(100, 1_000);
            assert!(benefit.is_likely(1_000), "that is not enough to judge by");
            benefit.given(Bytes::mib(1), Bytes::mib(124), 100);
            assert!(!benefit.is_likely(1_500), "it is time to judge");
            benefit.see(rate, 2_000);
            assert_eq!(benefit.is_likely(2_000), is_likely);
            assert!(benefit.is_likely(602_000));
        }
    }
}
