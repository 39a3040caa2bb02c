//! How long the balloons wait for page-out: what was expected of it may not come.

use counters::Bytes;

/// So long the host may lack as much as before.
const PATIENCE_MS: u64 = 20_000;
/// It lacks less if it is by so much.
const PROGRESS: Bytes = Bytes::mib(32);

/// What came while balloons waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// The least that the host lacked, and since when.
    least: Option<(Bytes, u64)>,
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
        let (least, since_ms) = *self.least.get_or_insert((lack, now_ms));
        if lack.plus(PROGRESS) <= least {
            self.least = Some((lack, now_ms));
        } else {
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
        assert!(waits(400, 39_499));
        assert!(!waits(230, 39_500), "it lacked 260 MiB 20 s ago");
        assert!(!waits(100, 40_000), "balloons may have given that");
        assert!(waits(0, 41_000));
        assert!(waits(300, 42_000));
    }
}
