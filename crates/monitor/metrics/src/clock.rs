//! Deadlines of connections, the only code in this crate that reads a clock.

use std::time::{Duration, Instant};

/// Time limit of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
impl Deadline {
    /// Returns a deadline after a timeout from now.
    pub(crate) fn within(patience: Duration) -> Deadline {
        Deadline(Instant::now() + patience)
    }

    /// Returns the remaining time, or `None` after the deadline.
    pub(crate) fn left(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}
