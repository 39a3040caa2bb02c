//! Patience: the time for which balloons wait for page-out, since its expected gain may never
//! arrive.

use base::Bytes;

/// Time without progress for which balloons wait.
const PATIENCE_MS: u64 = 20_000;
/// Smallest decrease of the missing memory, from its highest value, that counts as progress.
const PROGRESS: Bytes = Bytes::mib(32);

/// Progress while balloons wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// Highest lack since the last progress, and the time of that progress.
    most: Option<(Bytes, u64)>,
    is_over: bool,
}

impl Patience {
    /// Returns the part of page-out's expected gain that balloons wait for. Without progress, the
    /// result is zero until the host no longer lacks memory.
    pub fn wait_for(&mut self, expected: Bytes, lack: Bytes, now_ms: u64) -> Bytes {
        if lack == Bytes::ZERO {
            *self = Patience::default();
            return expected;
        }
        if expected == Bytes::ZERO {
            self.most = None;
            return Bytes::ZERO;
        }
        let (most, since_ms) = self.most.unwrap_or((lack, now_ms));
        if lack.plus(PROGRESS) <= most {
            self.most = Some((lack, now_ms));
        } else {
            // A growing shortage is no progress. A shortage that grew and now shrinks counts as
            // progress.
            self.most = Some((most.max(lack), since_ms));
            self.is_over |= now_ms.saturating_sub(since_ms) >= PATIENCE_MS;
        }
        if self.is_over { Bytes::ZERO } else { expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balloons_wait_as_long_as_something_comes() {
        let mut patience = Patience::default();
        let mut waits = |lack_mib, now_ms| {
            patience.wait_for(Bytes::mib(500), Bytes::mib(lack_mib), now_ms) > Bytes::ZERO
        };
        assert!(waits(300, 0));
        assert!(waits(280, 19_000), "not much");
        assert!(waits(260, 19_500));
        assert!(waits(250, 39_499));
        assert!(!waits(230, 39_500), "the lack was 260 MiB 20 s ago");
        assert!(!waits(100, 40_000), "balloons may have given that");
        assert!(waits(0, 41_000));
        assert!(waits(300, 42_000));
    }

    #[test]
    fn shrinking_shortage_is_progress_and_growing_one_is_none() {
        let mut patience = Patience::default();
        let mut waits = |expected_mib, lack_mib, now_ms| {
            patience.wait_for(Bytes::mib(expected_mib), Bytes::mib(lack_mib), now_ms) > Bytes::ZERO
        };
        assert!(waits(500, 50, 0));
        assert!(waits(500, 2_000, 15_000));
        assert!(waits(500, 1_900, 19_000), "page-out has begun to bring something");
        assert!(waits(500, 1_950, 38_999));
        assert!(!waits(500, 2_100, 39_000), "the lack has grown for 20 s");
        assert!(waits(500, 0, 40_000));
        // Without an expected gain there is no wait.
        assert!(waits(500, 300, 50_000));
        assert!(!waits(0, 300, 55_000));
        assert!(waits(500, 300, 75_000));
        assert!(!waits(500, 300, 95_000));
    }
}
