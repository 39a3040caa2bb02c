//! How often a guest was moved back and forth lately, and left too little room.

/// No count goes further: no cooling is longer than an hour.
const MAX: u32 = 7;
/// Both are half forgotten after this.
const FORGET_MS: u64 = 1_800_000;

/// The way in which a guest was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It got memory.
    Up,
    /// It gave memory.
    Down,
}

/// What is remembered of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// Moves one way soon after the other.
    pub reversals: u32,
    /// How often its room to breathe turned out too small.
    pub lessons: u32,
    since_ms: u64,
}

impl Turns {
    /// It was moved back, and was in want by then, or was not.
    pub fn turned(&mut self, wanted: bool, now_ms: u64) {
        self.reversals = (self.reversals + 1).min(MAX);
        self.lessons = (self.lessons + u32::from(wanted)).min(MAX);
        self.since_ms = now_ms;
    }

    /// Time passes.
    pub fn fade(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.since_ms) >= FORGET_MS {
            (self.reversals, self.lessons) = (self.reversals / 2, self.lessons / 2);
            self.since_ms = now_ms;
        }
    }
}
