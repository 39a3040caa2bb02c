//! Movements: series of shrinks for the same reason, reported once.

use super::reason::Clause;

/// Pause after which a new movement begins.
const BREAK_MS: u64 = 10_000;
/// Longest movement, so that an endless movement is still reported occasionally.
const LENGTH_MS: u64 = 600_000;

/// A series of shrinks for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Movement {
    clause: Clause,
    began_ms: u64,
    seen_ms: u64,
}

impl Movement {
    /// Begins a movement with its first step.
    pub fn begin(clause: Clause, now_ms: u64) -> Movement {
        Movement { clause, began_ms: now_ms, seen_ms: now_ms }
    }

    /// Returns true if a step for this reason continues the movement.
    pub fn takes(&self, clause: Clause, now_ms: u64) -> bool {
        clause == self.clause && self.lasts(now_ms)
    }

    /// Returns true if the movement may still get a further step.
    pub fn lasts(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.seen_ms) < BREAK_MS
            && now_ms.saturating_sub(self.began_ms) < LENGTH_MS
    }

    /// Records a further step of the movement.
    pub fn see(&mut self, now_ms: u64) {
        self.seen_ms = now_ms;
    }
}
