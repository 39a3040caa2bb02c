//! Words of decisions: the actions on a guest's size, their bounds, and their outcomes.

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
    /// Outcome of a target that was set for a guest's balloon.
    pub enum Fate {
        /// The guest reached the target.
        Reached = "reached",
        /// The balloon stopped on the way.
        Stuck = "stuck",
        /// The hypervisor refused.
        Refused = "refused",
        /// A newer target replaced this target before the guest reached it.
        Superseded = "superseded",
        /// The guest ended.
        Gone = "gone",
        /// The guest's kernel deflated the balloon.
        TookBack = "took-back",
        /// Another program moved the balloon.
        Foreign = "foreign",
    }
}

named! {
    /// A bound that limited a decision.
    pub enum Bound {
        /// The guest's minimum.
        Min = "min",
        /// The guest's maximum, or the size requested by its own rules.
        Max = "max",
        /// The largest step of a guest in one pass.
        Step = "step",
        /// The memory that the host can grant.
        Host = "host",
        /// The shares of other guests.
        Shares = "shares",
        /// The room left in the guest's control groups.
        Group = "cgroup",
    }
}

impl Bound {
    /// Returns the bound in words, to follow "limited by".
    pub fn words(self) -> &'static str {
        match self {
            Bound::Min => "the guest's minimum",
            Bound::Max => "the guest's maximum or own rules",
            Bound::Step => "the largest step of one pass",
            Bound::Host => "the memory that the host can grant",
            Bound::Shares => "the shares of other guests",
            Bound::Group => "the room in the guest's control groups",
        }
    }
}
