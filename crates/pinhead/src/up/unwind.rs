//! Handling of panics in parts of this program that guests do not need. After several panics such a
//! part is disabled, but no guest ends.
//!
//! All guests end with this process, which an uncaught panic would end. The table, the control
//! socket and the tiers' upkeep are separate parts. Guests continue to run without any of these
//! parts.

use crate::tell::tell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of faults after which a part stays disabled.
const FAULTS_MAX: u32 = 3;

/// A part of a turn that guests do not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Screen,
    Service,
    Tiers,
}

impl Part {
    /// Describes the function that is missing without the part.
    fn loss(self) -> &'static str {
        match self {
            Part::Screen => "the table is not drawn",
            Part::Service => "commands such as `pinhead ps` and `pinhead exec` get no answer",
            Part::Tiers => "KSM and swap are not controlled",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults([u32; 3]);

impl Faults {
    /// Returns true if a part has failed too often and is disabled.
    pub(super) fn is_left_out(self, part: Part) -> bool {
        self.0[part as usize] >= FAULTS_MAX
    }

    /// Runs a turn of a part. Returns `None` if the part is disabled or has panicked. The program
    /// has already reported this panic.
    pub(super) fn guard<T>(&mut self, part: Part, turn: impl FnOnce() -> T) -> Option<T> {
        if self.is_left_out(part) {
            return None;
        }
        // The panic may have left the part's state incomplete. The part is used again nevertheless.
        // The service's clients are then disconnected.
        let outcome = catch_unwind(AssertUnwindSafe(turn)).ok();
        if outcome.is_none() {
            self.0[part as usize] += 1;
            let (loss, end) = match self.is_left_out(part) {
                true => (part.loss(), " from now on"),
                false => ("the failed part is used again", ""),
            };
            let text = format!(
                "a part of this program failed because of an error in pinhead; the guests continue \
                 to run, and {loss}{end}"
            );
            tell("pinhead", &text);
        }
        outcome
    }
}
