//! The only place where a clock is read.

use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub fn now() -> Instant {
    Instant::now()
}

/// Sleeps until a moment. Returns immediately if the moment is past.
pub fn sleep_until(moment: Instant) {
    let left = moment.saturating_duration_since(now());
    if left > Duration::ZERO {
        std::thread::sleep(left);
    }
}
