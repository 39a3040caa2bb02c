//! The only place of this module that reads a clock, for the timeout of an answer.

use std::time::{Duration, Instant};

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until(Instant);

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
impl Until {
    /// Returns the end of a wait that starts now.
    pub(crate) fn after(patience: Duration) -> Until {
        Until(Instant::now() + patience)
    }

    /// Returns the time left, or 0 after the end.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}
