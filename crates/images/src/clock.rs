//! The time of day, for what is kept and for how long.

use std::time::{Duration, SystemTime};

/// The time of day: since 1970, by this host's clock.
#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
pub fn time_of_day() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
