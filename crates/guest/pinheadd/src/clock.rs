//! Clocks of the daemon.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The daemon's clocks: a monotonic clock for pacing, the time of day for `time`, and the uptime.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
impl Clock {
    pub fn new() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Returns the milliseconds since the start.
    pub fn ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Returns the microseconds since the start, to measure costs.
    pub fn us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Returns the milliseconds since the guest's boot, including suspended time.
    pub fn uptime_ms(&self) -> u64 {
        crate::sys::uptime_ms()
    }

    /// Returns the seconds since the epoch. Returns 0 if the machine's time of day is before the
    /// epoch.
    pub fn epoch_s(&self) -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
    }
}
