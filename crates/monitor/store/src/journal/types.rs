//! Contents of a journal, as plain values.

use base::named;
use model::clause::Clause;
use model::{Fate, GuestIdentity, SizeAction};
use std::borrow::Cow;

/// A machine name: a word of this program, or a word read from a file.
pub type Word = Cow<'static, str>;

/// Key of a guest in one journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestKey(pub i64);

/// A guest in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestRow {
    pub key: GuestKey,
    pub guest: GuestIdentity,
    /// Time of the first sighting, in milliseconds since 1970.
    pub first_ms: i64,
    /// Time of the last sighting, to within a minute.
    pub last_ms: i64,
}

/// Key of a decision in one journal, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionId(pub i64);

named! {
    /// Policy that decided.
    pub enum Policy {
        /// The policy that moves memory.
        Active = "active",
        /// The policy that runs alongside for comparison.
        Shadow = "shadow",
    }
}

/// A decision for one guest in one pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Time in milliseconds since 1970.
    pub at_ms: i64,
    /// Policy that decided.
    pub policy: Policy,
    /// `hold`, `grow`, `shrink`, `release`, `let-go`, `stuck`, or a later word.
    pub action: Word,
    /// Machine name of the deciding clause.
    pub clause: Word,
    /// Detail of the reason, if the clause has details ([`Clause::has_detail`]), else empty.
    pub detail: String,
    /// Size of the guest's memory before the decision.
    pub from_bytes: u64,
    /// Target size of the guest's memory.
    pub to_bytes: u64,
    /// Names of the bounds that the decision reached.
    pub bounds: Vec<Word>,
    /// Inputs of the decision. A missing value is `None`.
    pub inputs: Vec<(Word, Option<f64>)>,
    /// True if the hypervisor was called. The hypervisor is never called in a dry run or for a
    /// shadow policy.
    pub acted: bool,
}

impl Decision {
    /// Returns the action; `None` for a word of a later version.
    pub fn action(&self) -> Option<SizeAction> {
        SizeAction::from_name(&self.action)
    }

    /// Returns an input, if it was known.
    pub fn input(&self, name: &str) -> Option<f64> {
        let found = self.inputs.iter().find(|(known, _)| known == name)?;
        found.1.filter(|value| *value >= 0.0)
    }

    /// Returns the reason as a sentence. For a clause of a later version, returns the detail alone.
    pub fn reason(&self) -> String {
        let Some(clause) = Clause::of_name(&self.clause) else { return self.detail.clone() };
        let bounds: Vec<&str> = self.bounds.iter().map(AsRef::as_ref).collect();
        clause.reason(&self.detail, &bounds, &|name| self.input(name))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Time of the observation, in milliseconds since 1970.
    pub at_ms: i64,
    /// Outcome of the decision.
    pub fate: Fate,
    /// Size of the guest's memory at that time.
    pub reached_bytes: u64,
    /// Growth of the host's free memory through the guest's move so far, if it was measured.
    pub host_got_bytes: Option<u64>,
}

/// A decision read from the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// Key of the decision.
    pub id: DecisionId,
    /// Guest that the decision is for.
    pub guest: GuestKey,
    /// The decision as recorded.
    pub decision: Decision,
    /// Outcomes of the decision, oldest first.
    pub outcomes: Vec<Outcome>,
}

/// An event other than a decision or an outcome. [`kinds`](crate::kinds) lists the kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time in milliseconds since 1970.
    pub at_ms: i64,
    /// Kind of the event: one of [`kinds`](crate::kinds), or a word of a later version.
    pub kind: Word,
    /// Description of the event.
    pub text: String,
}

/// A range of time from its first to its last millisecond, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First millisecond.
    pub from_ms: i64,
    /// Last millisecond.
    pub to_ms: i64,
}

/// Selection of decisions to read.
#[derive(Clone, Debug)]
pub struct Query {
    /// Guests of the decisions.
    pub guests: Vec<GuestKey>,
    /// Time of the decisions.
    pub range: Range,
    /// Policy of the decisions, or `None` for both.
    pub policy: Option<Policy>,
}

/// An event read from the journal, with its guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The event as recorded.
    pub event: Event,
    /// Guest of the event; `None` for the manager or the host.
    pub guest: Option<GuestKey>,
}

/// Result of pruning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of removed rows: decisions and events.
    pub rows: u64,
    /// True if more rows can be removed by another call.
    pub more: bool,
}
