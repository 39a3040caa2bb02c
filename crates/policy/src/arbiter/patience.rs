//! How long the balloons wait for page-out: what was expected of it may not come.

use counters::Bytes;

/// So long the host may lack as much as before, while page-out is expected to gain something.
const PATIENCE_MS: u64 = 20_000;
/// It lacks less if it is by so much less than the most that it lacked.
const PROGRESS: Bytes = Bytes::mib(32);

/// What came while balloons waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// The most that the host has lacked since it lacked less the last time, and when that was.
    most: Option<(Bytes, u64)>,
    is_over: bool,
}

impl Patience {
    /// What of page-out's expected gain balloons wait for, on a host that lacks so much: nothing
    /// any more if it went on to lack that, until it lacks nothing.
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
            // A shortage that grows is no progress, and one that has grown and shrinks is.
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
        assert!(!waits(230, 39_500), "it lacked 260 MiB 20 s ago");
        assert!(!waits(100, 40_000), "balloons may have given that");
        assert!(waits(0, 41_000));
        assert!(waits(300, 42_000));
    }

    #[test]
    fn a_shortage_that_grew_and_shrinks_is_progress_and_one_that_only_grows_is_none() {
        let mut patience = Patience::default();
        let mut waits = |expected_mib, lack_mib, now_ms| {
            patience.wait_for(Bytes::mib(expected_mib), Bytes::mib(lack_mib), now_ms) > Bytes::ZERO
        };
        assert!(waits(500, 50, 0));
        assert!(waits(500, 2_000, 15_000));
        assert!(waits(500, 1_900, 19_000), "page-out has begun to bring something");
        assert!(waits(500, 1_950, 38_999));
        assert!(!waits(500, 2_100, 39_000), "it lacks more for 20 s");
        assert!(waits(500, 0, 40_000));
        // Nothing was expected, so nothing was waited for.
        assert!(waits(500, 300, 50_000));
        assert!(!waits(0, 300, 55_000));
        assert!(waits(500, 300, 75_000));
        assert!(!waits(500, 300, 95_000));
    }
}
