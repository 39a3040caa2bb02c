//! The only place where the daemon reads a clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// One clock that never jumps, to pace by, the one that `time` shows, and the guest's age.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
impl Clock {
    /// Starts to count.
    pub fn new() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Milliseconds since the start.
    pub fn ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Microseconds since the start, for what something costs.
    pub fn us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Milliseconds since the guest's boot, to compare with other times of this guest.
    pub fn uptime_ms(&self) -> u64 {
        crate::sys::uptime_ms()
    }

    /// Seconds since the epoch; 0 on a machine whose clock is before it.
    pub fn epoch_s(&self) -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
    }
}
