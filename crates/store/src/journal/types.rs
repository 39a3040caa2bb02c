//! What a journal holds, as plain values.

use base::named;
use model::GuestIdentity;
use std::borrow::Cow;

/// A machine name: one of the program's own words, or what was read back from a file.
pub type Word = Cow<'static, str>;

/// The number of a guest in one journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestKey(pub i64);

/// A guest that a journal knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestRow {
    /// Its number.
    pub key: GuestKey,
    /// Who it is.
    pub guest: GuestIdentity,
    /// When it was first seen, in milliseconds since 1970.
    pub first_ms: i64,
    /// When it was last seen, to within a minute.
    pub last_ms: i64,
}

/// The number of a decision in one journal. It is not given to another one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionId(pub i64);

named! {
    /// Which policy decided.
    pub enum Policy {
        /// The one that moves memory.
        Active = "active",
        /// The one that runs beside it to be compared.
        Shadow = "shadow",
    }
}

/// What was decided for one guest in one pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// By which policy.
    pub policy: Policy,
    /// `hold`, `grow`, `shrink`, `release`, `let-go`, `stuck`, or a later word.
    pub action: Word,
    /// The machine name of the clause that decided.
    pub clause: Word,
    /// The policy's own short sentence.
    pub reason: String,
    /// What the guest had, or was asked to have, before.
    pub from_bytes: u64,
    /// What it is to have.
    pub to_bytes: u64,
    /// The names of the bounds that the decision met.
    pub bounds: Vec<Word>,
    /// What the decision was taken from; a value that was missing is `None`.
    pub inputs: Vec<(Word, Option<f64>)>,
    /// Whether the hypervisor was asked: not in a dry run, and not for a shadow policy.
    pub acted: bool,
}

named! {
    /// How a decision that was acted upon ended.
    pub enum Fate {
        /// The guest has what was decided.
        Reached = "reached",
        /// Its balloon does not move.
        Stuck = "stuck",
        /// The hypervisor refused.
        Refused = "refused",
        /// A later decision took its place.
        Superseded = "superseded",
        /// The guest went.
        Gone = "gone",
        /// The guest's kernel took memory back.
        TookBack = "took-back",
        /// Somebody else moved the balloon.
        Foreign = "foreign",
    }
}

/// What came of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When that was seen, in milliseconds since 1970.
    pub at_ms: i64,
    /// How it ended.
    pub fate: Fate,
    /// What the guest has now.
    pub reached_bytes: u64,
    /// By how much the host's free memory grew through it, where that was measured.
    pub host_got_bytes: Option<u64>,
}

/// A decision as it is read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// Its number.
    pub id: DecisionId,
    /// For whom it was.
    pub guest: GuestKey,
    /// What was decided.
    pub decision: Decision,
    /// What came of it, oldest first.
    pub outcomes: Vec<Outcome>,
}

/// Something else that happened; [`kinds`](crate::kinds) has what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What happened: one of [`kinds`](crate::kinds), or a later word.
    pub kind: Word,
    /// A sentence about it.
    pub text: String,
}

/// A time from its first to its last millisecond, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub from_ms: i64,
    /// The last.
    pub to_ms: i64,
}

/// Which decisions to read.
#[derive(Clone, Debug)]
pub struct Query {
    /// Of these guests.
    pub guests: Vec<GuestKey>,
    /// In this time.
    pub range: Range,
    /// Of this policy; of both if none is named.
    pub policy: Option<Policy>,
}

/// An event as it is read back, with the guest that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What happened.
    pub event: Event,
    /// To whom; `None` if to the manager or the host.
    pub guest: Option<GuestKey>,
}

/// What a pruning took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Rows that are gone: decisions and events.
    pub rows: u64,
    /// There is more to take away: call again at the next leisure.
    pub more: bool,
}
