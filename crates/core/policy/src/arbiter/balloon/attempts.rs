//! Failed attempts to move a balloon, the wait before the next attempt, and the balloon's speed.

use base::Bytes;

/// First wait before a stuck balloon is tried again. Each further wait is twice as long.
const RETRY_MS: u64 = 10_000;
/// Longest wait between two attempts to inflate a stuck balloon.
const TAKE_MS_MAX: u64 = 600_000;
/// Longest wait between two attempts to deflate a stuck balloon. This wait is shorter than the wait
/// for an inflation, because the guest may be in need.
const GIVE_MS_MAX: u64 = 60_000;
/// Limit for granted memory that has not arrived: the amount that arrives within this time at the
/// measured speed. Without this limit, a slow balloon could withhold memory from other guests for
/// minutes.
const REACH_MS: u64 = 8_000;
/// Smallest limit for granted memory that has not arrived. This amount is large enough to show that
/// a slow balloon has become faster.
const REACH_MIN: Bytes = Bytes::mib(128);
/// Shortest time over which a speed is measured.
const SPEED_MS: u64 = 400;

/// Attempts in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tries {
    /// Consecutive failures.
    failed: u32,
    /// End of the wait after the last failure.
    until_ms: Option<u64>,
}

impl Tries {
    fn fails(&mut self, most_ms: u64, now_ms: u64) {
        self.until_ms = Some(now_ms + (RETRY_MS << self.failed.min(10)).min(most_ms));
        self.failed += 1;
    }

    pub fn succeeds(&mut self) {
        self.failed = 0;
    }

    pub fn waits(&self, now_ms: u64) -> bool {
        self.until_ms.is_some_and(|until| now_ms < until)
    }
}

/// Attempts in both directions. After a failure the balloon rests for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attempts {
    /// Attempts to inflate. The guest may still grow during the wait.
    pub inflate: Tries,
    /// Attempts to deflate. Nothing is requested during the wait.
    pub deflate: Tries,
}

impl Attempts {
    pub fn of(&mut self, shrinks: bool) -> &mut Tries {
        if shrinks { &mut self.inflate } else { &mut self.deflate }
    }

    pub fn fails(&mut self, shrinks: bool, now_ms: u64) {
        let most_ms = if shrinks { TAKE_MS_MAX } else { GIVE_MS_MAX };
        self.of(shrinks).fails(most_ms, now_ms);
    }
}

/// Speed of a balloon, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    /// Size and time of the last measurement.
    seen: Option<(Bytes, u64)>,
    /// Bytes moved in a second. `None` until a move was long enough for a measurement.
    speed: Option<Bytes>,
}

impl Pace {
    /// Returns the limit for granted memory that has not arrived.
    pub fn reach(&self) -> Bytes {
        let Some(speed) = self.speed else { return Bytes(u64::MAX) };
        Bytes(speed.0.saturating_mul(REACH_MS / 1000)).max(REACH_MIN)
    }

    /// Measures the speed while the balloon moves.
    pub fn measure(&mut self, actual: Bytes, now_ms: u64) {
        let Some((before, at_ms)) = self.seen else {
            self.seen = Some((actual, now_ms));
            return;
        };
        let window_ms = now_ms.saturating_sub(at_ms);
        if window_ms >= SPEED_MS {
            let moved = actual.0.abs_diff(before.0);
            self.speed = Some(Bytes(moved.saturating_mul(1000) / window_ms));
            self.seen = Some((actual, now_ms));
        }
    }

    /// Ends a measurement.
    pub fn rests(&mut self) {
        self.seen = None;
    }

    /// Doubles the speed of a balloon that reached its target, because the balloon may be faster
    /// than measured.
    pub fn arrived(&mut self) {
        self.speed = self.speed.map(|speed| Bytes(speed.0.saturating_mul(2)));
    }
}
