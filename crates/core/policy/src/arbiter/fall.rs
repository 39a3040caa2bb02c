//! The rate at which the host's free memory falls, without the arbiter's own grants. Memory that
//! guests return at the same time hides a part of the fall.

use base::Bytes;

/// Shortest time over which the fall is measured. While guests are in need, passes follow each
/// other within milliseconds. A single burst of use must not be extrapolated to a whole second.
const WINDOW_MS: u64 = 500;

/// The fall of free memory that is not promised. Use of promised memory reduces both free memory
/// and promises, so their difference stays the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fall {
    /// Free memory less promises at the end of the last pass, in bytes. The value is negative if
    /// more was promised than was free.
    left: Option<i64>,
    began_ms: u64,
    /// Fall since `began_ms`, in bytes.
    fell: i64,
    a_second: Bytes,
}

impl Fall {
    /// Updates the rate at the start of a pass.
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

    /// Records the free and promised memory at the end of a pass.
    pub fn pass_over(&mut self, available: Bytes, promised: Bytes) {
        self.left = Some(free(available, promised));
    }

    /// Returns the smoothed rate.
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

    /// Runs passes at these times, with free and promised memory at the start and promised memory
    /// at the end, in MiB.
    fn after(passes: &[(u64, u64, u64, u64)]) -> u64 {
        let mut fall = Fall::default();
        for (at_ms, available, promised, then) in passes {
            fall.see(Bytes::mib(*available), Bytes::mib(*promised), *at_ms);
            fall.pass_over(Bytes::mib(*available), Bytes::mib(*then));
        }
        fall.a_second().as_mib()
    }

    #[test]
    fn granted_memory_in_use_is_no_fall() {
        assert_eq!(after(&[(0, 1000, 0, 400), (1000, 800, 200, 200), (2000, 600, 0, 0)]), 0);
        assert_eq!(after(&[(0, 1000, 0, 0), (1000, 800, 0, 0)]), 100);
        // Half of the used memory had been granted.
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
