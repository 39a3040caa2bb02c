//! Decisions and their reasons: the clause that decided, the bounds that were met, and the numbers.

use super::sample::Key;
use base::{Bytes, named};
use model::SizeAction;
pub use model::clause::Clause;
pub use model::{Bound, Fate};

named! {
    /// The direction of a decision.
    pub enum Action {
        /// The guest keeps its size.
        Hold = "hold",
        /// The guest gets memory.
        Grow = "grow",
        /// The guest returns memory.
        Shrink = "shrink",
    }
}

impl Action {
    /// Returns the action as the journal names it. Some holds have names of their own in the
    /// journal.
    pub fn told(self, clause: Clause) -> SizeAction {
        match (self, clause) {
            (Action::Hold, Clause::Stuck) => SizeAction::Stuck,
            (Action::Hold, Clause::Foreign) => SizeAction::LetGo,
            (_, Clause::Released) => SizeAction::Release,
            (action, _) => action.into(),
        }
    }
}

impl From<Action> for SizeAction {
    fn from(action: Action) -> SizeAction {
        match action {
            Action::Hold => SizeAction::Hold,
            Action::Grow => SizeAction::Grow,
            Action::Shrink => SizeAction::Shrink,
        }
    }
}

/// A number as the journal stores it; `None` if unknown.
trait Number {
    fn number(self) -> Option<u64>;
}

impl Number for Option<Bytes> {
    fn number(self) -> Option<u64> {
        self.map(|size| size.0)
    }
}

impl Number for Option<u64> {
    fn number(self) -> Option<u64> {
        self
    }
}

impl Number for bool {
    fn number(self) -> Option<u64> {
        Some(u64::from(self))
    }
}

macro_rules! inputs {
    ($($field:ident: $type:ty = $name:literal),+ $(,)?) => {
        /// The numbers behind a decision. An unknown number is `None`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are those of the journal")]
        pub struct Inputs { $(pub $field: $type),+ }

        impl Inputs {
            /// Returns all numbers under their names in the journal.
            pub fn named(&self) -> Vec<(&'static str, Option<u64>)> {
                vec![$(($name, self.$field.number())),+]
            }
        }
    };
}

inputs! {
    actual: Option<Bytes> = "guest_actual",
    resident: Option<Bytes> = "guest_resident",
    used: Option<Bytes> = "guest_used",
    available: Option<Bytes> = "guest_available",
    free: Option<Bytes> = "guest_free",
    hot: Option<Bytes> = "guest_hot",
    cold: Option<Bytes> = "guest_cold",
    headroom: Option<Bytes> = "guest_comfort",
    need: Option<Bytes> = "need",
    request: Option<Bytes> = "guest_request",
    psi_permille: Option<u64> = "psi_permille",
    swap_in_pages_s: Option<u64> = "swap_in_pages_s",
    swap_out_pages_s: Option<u64> = "swap_out_pages_s",
    refault_pages_s: Option<u64> = "refault_pages_s",
    stalls_s: Option<u64> = "stalls_s",
    sample_age_ms: Option<u64> = "sample_age_ms",
    // True if the guest has not run since its sample, so that an old sample is still right.
    asleep: bool = "asleep",
    strained: bool = "strained",
    host_available: Option<Bytes> = "host_available",
    host_set_point: Option<Bytes> = "host_set_point",
    host_reserve: Option<Bytes> = "host_reserve",
    host_coming: Option<Bytes> = "host_coming",
    host_promised: Option<Bytes> = "host_promised",
    host_unmet: Option<Bytes> = "host_unmet",
    // Fall of free memory in one second.
    host_fall: Option<Bytes> = "host_fall",
    host_page_out: Option<Bytes> = "host_page_out",
    // Numbers of other managers' rules.
    rules_host_permille: Option<u64> = "rules_host_permille",
    rules_stall_ms: Option<u64> = "rules_stall_ms",
}

/// An action on a guest, or a hold, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Guest.
    pub key: Key,
    /// Direction.
    pub action: Action,
    /// Part of the policy that decided.
    pub clause: Clause,
    /// Detail where the clause alone is not enough, such as the reason for which a guest cannot be
    /// used.
    pub detail: &'static str,
    /// Size before.
    pub from: Bytes,
    /// Size to reach.
    pub to: Bytes,
    /// New target of the guest's balloon, if any.
    pub command: Option<Bytes>,
    /// True if this is the next step of a movement that was reported already.
    pub goes_on: bool,
    /// Bounds that were met.
    pub bounds: Vec<Bound>,
    /// Numbers behind the decision.
    pub inputs: Inputs,
}

/// The outcome of an earlier decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Guest.
    pub key: Key,
    /// Result.
    pub result: Fate,
    /// Size of the guest at the end.
    pub reached: Bytes,
    /// Memory that the host gained, if that could be measured.
    pub host_got: Option<Bytes>,
    /// Gain of all steps of the movement so far.
    pub got_in_all: Option<Bytes>,
}

/// An unrequested size of a balloon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Guest.
    pub key: Key,
    /// Size of the guest.
    pub at: Bytes,
    /// True if the size grew. The guest's own kernel may have deflated the balloon.
    pub rose: bool,
}

/// The result of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Identifier.
    pub id: u64,
    /// `Ok` if the memory is free and kept free. Otherwise the guests that could not shrink, with
    /// their clauses.
    pub outcome: Result<(), Vec<(Key, Clause)>>,
}

/// The result of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Decisions about guests with a new target or a new reason.
    pub decisions: Vec<Decision>,
    /// Outcomes of earlier decisions.
    pub outcomes: Vec<Outcome>,
    /// Balloons that another manager moved.
    pub left: Vec<Left>,
    /// Results of reservations.
    pub reserved: Vec<Reserved>,
    /// Numbers of every guest, with or without a decision.
    pub inputs: Vec<(Key, Inputs)>,
}
