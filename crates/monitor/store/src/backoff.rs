//! Schedule of retries and reports for a file that cannot be written to.

/// Maximum number of turns between two attempts.
const PAUSE_MAX: u32 = 16;

/// Pause after the third failure in a row.
const LASTING: u32 = 4;

/// Failures in a row. Only the first failure is reported. The pause grows after each failure.
#[derive(Debug, Default)]
pub struct Backoff {
    is_failing: bool,
    /// Turns between two attempts.
    pause: u32,
    left: u32,
}

impl Backoff {
    /// Returns true if at least three attempts in a row have failed.
    pub fn is_lasting(&self) -> bool {
        self.is_failing && self.pause >= LASTING
    }

    /// Returns true if this turn must be skipped.
    pub fn waits(&mut self) -> bool {
        let waits = self.left > 0;
        self.left = self.left.saturating_sub(1);
        waits
    }

    /// Ends the pause, so that the next turn tries again.
    pub fn try_soon(&mut self) {
        self.left = 0;
    }

    /// Counts a success. Returns true if the attempt before failed.
    pub fn worked(&mut self) -> bool {
        std::mem::take(self).is_failing
    }

    /// Counts a failure. Returns true if the failure is the first in a row.
    pub fn failed(&mut self) -> bool {
        self.pause = (self.pause * 2).clamp(1, PAUSE_MAX);
        self.left = self.pause;
        !std::mem::replace(&mut self.is_failing, true)
    }
}
