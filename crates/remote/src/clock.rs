//! The only place of this crate that reads a clock: how long an answer may take.

use std::time::{Duration, Instant};

/// When nobody waits any longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until(Instant);

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
impl Until {
    /// So long from now.
    pub(crate) fn after(patience: Duration) -> Until {
        Until(Instant::now() + patience)
    }

    /// How long that still is: nothing when it is over.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}
