//! Recent reversals of a guest, and cases in which its headroom was too small.

use super::releases::Releases;

/// Largest count. At this count, a cool-down reaches its maximum of an hour.
const MAX: u32 = 7;
/// Time after which both counts are halved.
const FORGET_MS: u64 = 1_800_000;

/// The direction of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The guest got memory.
    Up,
    /// The guest returned memory.
    Down,
}

/// The counts of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// Moves soon after a move in the other direction.
    pub reversals: u32,
    /// Number of times that the headroom was too small.
    pub lessons: u32,
    since_ms: u64,
}

/// Moves of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// Direction and time of the last move, without releases.
    pub last: Option<(Direction, u64)>,
    pub turns: Turns,
    pub releases: Releases,
}

impl Turns {
    /// Records a reversal. `wanted` is true if the guest was in need at that time.
    pub fn turned(&mut self, wanted: bool, now_ms: u64) {
        self.reversals = (self.reversals + 1).min(MAX);
        self.lessons = (self.lessons + u32::from(wanted)).min(MAX);
        self.since_ms = now_ms;
    }

    /// Halves the counts when `FORGET_MS` has passed.
    pub fn fade(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.since_ms) >= FORGET_MS {
            (self.reversals, self.lessons) = (self.reversals / 2, self.lessons / 2);
            self.since_ms = now_ms;
        }
    }
}
