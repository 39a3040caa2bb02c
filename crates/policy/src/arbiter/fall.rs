//! How fast the host's free memory falls: what the arbiter granted is not a part of that. What
//! guests give at the same time hides it, as it makes up for it.

use counters::Bytes;

/// It is measured over this time at least. Passes follow each other within milliseconds while
/// guests are in need, and what one of them takes at once is no rate that a second goes on with.
const WINDOW_MS: u64 = 500;

/// The fall of free memory that is promised to nobody. What was promised and is used since is in
/// neither of the two numbers that it is the difference of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fall {
    /// Free at the end of the last pass, when its grants were promised, in bytes; below 0 if more
    /// was promised than there was.
    left: Option<i64>,
    began_ms: u64,
    /// How far it fell since then.
    fell: i64,
    a_second: Bytes,
}

impl Fall {
    /// A pass begins.
    pub fn see(&mut self, available: Bytes, promised: Bytes, at_ms: u64) {
        let now = free(available, promised);
        let Some(left) = self.left else {
            self.began_ms = at_ms;
            return;
        };
        self.fell = self.fell.saturating_add(left.saturating_sub(now));
        let window_ms = at_ms.saturating_sub(self.began_ms);
        if window_ms >= WINDOW_MS {
            let fell = u64::try_from(self.fell).unwrap_or(0).saturating_mul(1000) / window_ms;
            self.a_second = Bytes(self.a_second.0 / 2 + fell / 2);
            (self.began_ms, self.fell) = (at_ms, 0);
        }
    }

    /// The pass is over, and so much is promised now.
    pub fn pass_over(&mut self, available: Bytes, promised: Bytes) {
        self.left = Some(free(available, promised));
    }

    /// The rate, smoothed.
    pub fn a_second(&self) -> Bytes {
        self.a_second
    }
}

fn free(available: Bytes, promised: Bytes) -> i64 {
    let signed = |size: Bytes| i64::try_from(size.0).unwrap_or(i64::MAX);
    signed(available).saturating_sub(signed(promised))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes at these times, by what is free and promised when one begins and promised when it
    /// ends, in MiB.
    fn after(passes: &[(u64, u64, u64, u64)]) -> u64 {
        let mut fall = Fall::default();
        for (at_ms, available, promised, then) in passes {
            fall.see(Bytes::mib(*available), Bytes::mib(*promised), *at_ms);
            fall.pass_over(Bytes::mib(*available), Bytes::mib(*then));
        }
        fall.a_second().as_mib()
    }

    #[test]
    fn what_was_granted_and_is_used_is_no_fall() {
        assert_eq!(after(&[(0, 1000, 0, 400), (1000, 800, 200, 200), (2000, 600, 0, 0)]), 0);
        assert_eq!(after(&[(0, 1000, 0, 0), (1000, 800, 0, 0)]), 100);
        // Half of what is gone had been granted.
        assert_eq!(after(&[(0, 1000, 0, 200), (1000, 600, 0, 0)]), 100);
        assert_eq!(after(&[(0, 100, 0, 200), (1000, 50, 150, 150), (2000, 40, 150, 150)]), 5);
    }

    #[test]
    fn a_short_time_is_no_rate_and_all_that_fell_counts_in_the_end() {
        assert_eq!(after(&[(0, 1000, 0, 0), (20, 700, 0, 0), (40, 700, 0, 0)]), 0);
        assert_eq!(after(&[(0, 1000, 0, 0), (20, 700, 0, 0), (500, 700, 0, 0)]), 300);
        assert_eq!(after(&[(0, 1000, 0, 0), (1000, 2000, 0, 0), (2000, 1900, 0, 0)]), 50);
    }
}
