//! Findings, with what their remedies would have done.

use whatif::{Finding, Tally};

/// The findings of a time, and the number of guests.
pub(super) struct Found {
    pub(super) advised: Vec<Advised>,
    pub(super) guests: usize,
}

/// A finding, and what playing the passes again with its remedy says.
pub(super) struct Advised {
    pub(super) finding: Finding,
    pub(super) foretold: Option<Foretold>,
}

/// The outcome of the passes as they were, and with a remedy.
pub(super) struct Foretold {
    pub(super) before: (Tally, u128),
    pub(super) after: (Tally, u128),
}

impl Foretold {
    /// Returns whether a twentieth less is not met, or a hundredth more is free.
    pub(super) fn helps(&self) -> bool {
        let ((before, free_before), (after, free_after)) = (&self.before, &self.after);
        let is_met = after.unmet < before.unmet && after.unmet <= before.unmet / 20 * 19;
        is_met || *free_after > free_before / 100 * 101
    }
}
