//! Shrinks that follow each other for one reason are one movement: it is reported once.

use super::reason::Clause;

/// After a rest of this length another movement begins.
const BREAK_MS: u64 = 10_000;
/// No movement is longer than this, so that one that goes on and on is told of now and then.
const LENGTH_MS: u64 = 600_000;

/// A movement down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Movement {
    clause: Clause,
    began_ms: u64,
    seen_ms: u64,
}

impl Movement {
    /// Its first step.
    pub fn begin(clause: Clause, now_ms: u64) -> Movement {
        Movement { clause, began_ms: now_ms, seen_ms: now_ms }
    }

    /// Whether a step for this reason belongs to it.
    pub fn takes(&self, clause: Clause, now_ms: u64) -> bool {
        clause == self.clause && self.lasts(now_ms)
    }

    /// Whether its next step may still come.
    pub fn lasts(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.seen_ms) < BREAK_MS
            && now_ms.saturating_sub(self.began_ms) < LENGTH_MS
    }

    /// It goes on.
    pub fn see(&mut self, now_ms: u64) {
        self.seen_ms = now_ms;
    }
}
