//! When a file that cannot be written to is tried again, and when that is reported.

/// A file that cannot be written to is tried again after this many turns at most.
const PAUSE_MAX: u32 = 16;

/// The pause after the third failure in a row.
const LASTING: u32 = 4;

/// Failures in a row. The first is news, and after each the next try comes later.
#[derive(Debug, Default)]
pub struct Backoff {
    is_failing: bool,
    /// Turns between two tries, and how many are left to let pass.
    pause: u32,
    left: u32,
}

impl Backoff {
    /// Tells if three tries in a row have failed, and no other one is near.
    pub fn is_lasting(&self) -> bool {
        self.is_failing && self.pause >= LASTING
    }

    /// Whether this turn is to be let pass.
    pub fn waits(&mut self) -> bool {
        let waits = self.left > 0;
        self.left = self.left.saturating_sub(1);
        waits
    }

    /// The next turn tries again.
    pub fn try_soon(&mut self) {
        self.left = 0;
    }

    /// It worked; whether it had failed before.
    pub fn worked(&mut self) -> bool {
        std::mem::take(self).is_failing
    }

    /// It failed; whether that is news.
    pub fn failed(&mut self) -> bool {
        self.pause = (self.pause * 2).clamp(1, PAUSE_MAX);
        self.left = self.pause;
        !std::mem::replace(&mut self.is_failing, true)
    }
}
