//! Time since a start, for those who pace themselves.

use std::time::{Duration, Instant, SystemTime};

/// A clock that never jumps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
impl Clock {
    /// Starts to count.
    #[allow(clippy::new_without_default, reason = "a default would hide that it starts to count")]
    pub fn new() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Milliseconds since the start.
    pub fn ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The time of day: since 1970, by this host's clock.
#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
pub(crate) fn time_of_day() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
