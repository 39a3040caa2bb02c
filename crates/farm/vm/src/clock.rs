//! Clock for loops with a fixed interval.

use std::time::Instant;

/// A monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
impl Clock {
    /// Starts the clock.
    #[allow(clippy::new_without_default, reason = "a default would hide that it starts to count")]
    pub fn new() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Returns the milliseconds since the start.
    pub fn ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the microseconds since the start.
    pub fn us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
