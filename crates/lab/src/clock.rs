//! The only place where a clock is read.

use std::sync::LazyLock;
use std::time::Instant;

/// Seconds since this was first asked.
#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
pub fn seconds() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_secs_f64()
}
