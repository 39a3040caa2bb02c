//! The only place where a clock is read.

use std::time::Instant;

/// A clock that starts with the experiment.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

#[allow(clippy::disallowed_methods, reason = "this is a clock module")]
impl Clock {
    /// Starts to count.
    #[allow(clippy::new_without_default, reason = "a default would hide that it starts to count")]
    pub fn new() -> Clock {
        Clock(Instant::now())
    }

    /// Seconds since it was started.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
