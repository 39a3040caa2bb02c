//! The only place of this crate that reads a clock: deadlines of connections.

use std::time::{Duration, Instant};

/// A time by which something must be over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
impl Deadline {
    /// So long from now.
    pub(crate) fn within(patience: Duration) -> Deadline {
        Deadline(Instant::now() + patience)
    }

    /// What is left of it; `None` when it is over.
    pub(crate) fn left(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}
