//! Time since a start, for loops that pace themselves.

use std::time::Instant;

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
