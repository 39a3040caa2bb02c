//! What was decided, and why: every decision carries the clause that made it, the bounds that it
//! met and the numbers that went into it.

use super::sample::Key;
use base::named;
use counters::Bytes;
pub use model::clause::Clause;

named! {
    /// A bound that stood in the way of more.
    pub enum Bound {
        /// The guest's minimum.
        Min = "min",
        /// The guest's maximum, or what its own rules are content with.
        Max = "max",
        /// What a guest gives in one pass.
        Step = "step",
        /// What the host can give.
        Host = "host",
        /// The share against other guests.
        Shares = "shares",
        /// The room that its control groups have left.
        Group = "cgroup",
    }
}

named! {
    /// Which way it goes.
    pub enum Action {
        /// The guest keeps what it has.
        Hold = "hold",
        /// The guest gets memory.
        Grow = "grow",
        /// The guest gives memory.
        Shrink = "shrink",
    }
}

impl Action {
    /// The same in the words of a journal, which has words of its own for some that are held.
    pub fn told(self, clause: Clause) -> &'static str {
        match (self, clause) {
            (Action::Hold, Clause::Stuck) => "stuck",
            (Action::Hold, Clause::Foreign) => "let-go",
            (_, Clause::Released) => "release",
            (action, _) => action.name(),
        }
    }
}

/// A number as the journal keeps it; `None` if it was not known.
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
        /// The numbers that a decision came from. What was not known is `None`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are those of the journal")]
        pub struct Inputs { $(pub $field: $type),+ }

        impl Inputs {
            /// All of them under the names that the journal keeps them by.
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
    strained: bool = "strained",
    host_available: Option<Bytes> = "host_available",
    host_set_point: Option<Bytes> = "host_set_point",
    host_reserve: Option<Bytes> = "host_reserve",
    host_coming: Option<Bytes> = "host_coming",
    host_promised: Option<Bytes> = "host_promised",
    host_unmet: Option<Bytes> = "host_unmet",
    // A second.
    host_fall: Option<Bytes> = "host_fall",
    host_page_out: Option<Bytes> = "host_page_out",
    // What other managers' rules went by.
    rules_host_permille: Option<u64> = "rules_host_permille",
    rules_stall_ms: Option<u64> = "rules_stall_ms",
}

/// What is to be done with a guest, or that nothing is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which guest.
    pub key: Key,
    /// Which way.
    pub action: Action,
    /// The part of the policy that decided.
    pub clause: Clause,
    /// More about it where the clause alone is not enough, such as why it cannot be used.
    pub detail: &'static str,
    /// What it had.
    pub from: Bytes,
    /// What it is to have.
    pub to: Bytes,
    /// The new target of its balloon, if any.
    pub command: Option<Bytes>,
    /// It is the next step of a movement that was reported, and no news.
    pub goes_on: bool,
    /// The bounds that it met.
    pub bounds: Vec<Bound>,
    /// What it came from.
    pub inputs: Inputs,
}

/// How an earlier decision came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Which guest.
    pub key: Key,
    /// How.
    pub result: Arrival,
    /// What the guest had in the end.
    pub reached: Bytes,
    /// What the host got of it, where that could be seen.
    pub host_got: Option<Bytes>,
    /// The same of all steps of its movement so far.
    pub got_in_all: Option<Bytes>,
}

named! {
    /// How a target was met.
    pub enum Arrival {
        /// The guest has what it was to have.
        Reached = "reached",
        /// A newer target took its place on the way.
        Superseded = "superseded",
        /// It came to a halt on the way.
        Stuck = "stuck",
        /// The guest's kernel took memory back.
        TookBack = "took-back",
        /// Another manager moved it.
        Foreign = "foreign",
    }
}

/// A size of a balloon that nobody here asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Which guest.
    pub key: Key,
    /// The size.
    pub at: Bytes,
    /// It is more than the guest had: its own kernel may have taken it.
    pub rose: bool,
}

/// What came of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Which.
    pub id: u64,
    /// Free now and kept free, or the guests that would not give, and by which clause.
    pub outcome: Result<(), Vec<(Key, Clause)>>,
}

/// All that a pass came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// One for each guest whose target or reason has changed.
    pub decisions: Vec<Decision>,
    /// How earlier decisions came out.
    pub outcomes: Vec<Outcome>,
    /// Balloons that somebody else has moved.
    pub left: Vec<Left>,
    /// What came of reservations.
    pub reserved: Vec<Reserved>,
    /// The numbers of every guest, whether or not anything was decided about it.
    pub inputs: Vec<(Key, Inputs)>,
}
