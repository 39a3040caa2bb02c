//! Current time and local zone, for questions about the past.

use jiff::tz::TimeZone;
use std::time::{SystemTime, UNIX_EPOCH};

use super::when::Now;

/// Returns the current time and the local zone.
#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
pub fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    Now { ms, zone: TimeZone::system() }
}
