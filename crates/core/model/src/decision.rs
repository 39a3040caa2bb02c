//! Words of decisions: the actions on a guest's size, and their outcomes.

use base::named;

named! {
    /// Action on a guest's size. A policy decides the first three actions. The other actions hold
    /// or grow a guest for a special cause.
    pub enum SizeAction {
        /// The size stays.
        Hold = "hold",
        /// The guest gets more memory.
        Grow = "grow",
        /// The guest returns memory.
        Shrink = "shrink",
        /// The operator released the guest.
        Release = "release",
        /// The balloon does not move.
        Stuck = "stuck",
        /// Another manager controls the guest.
        LetGo = "let-go",
    }
}

named! {
    /// Outcome of a target.
    pub enum Fate {
        /// The guest reached the target.
        Reached = "reached",
        /// The balloon stopped on the way.
        Stuck = "stuck",
        /// The hypervisor refused.
        Refused = "refused",
        /// A newer target replaced it on the way.
        Superseded = "superseded",
        /// The guest ended.
        Gone = "gone",
        /// The guest's kernel deflated the balloon.
        TookBack = "took-back",
        /// Another program moved the balloon.
        Foreign = "foreign",
    }
}
