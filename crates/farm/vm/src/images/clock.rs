//! The time of day, for the age of cached files.

use std::time::{Duration, SystemTime};

/// Returns the time since 1970, by this host's clock.
#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
pub fn time_of_day() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
