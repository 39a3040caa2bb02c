//! What pinhead keeps on disk, in SQLite: today the journal of the host manager's decisions.
//!
//! ```text
//!   manager ─► Writer (queue, one transaction a flush) ─► Journal ─► journal.db
//!                                                                       │
//!   pinhead why, pinhead host diff ◄── Decided, Event, GuestRow ◄── Journal::read_only
//! ```
//!
//! Each kind of store has a module with its own tables and its own list of migrations; `db` is
//! what they share: opening a file, telling whose it is, and bringing it up to date. What goes
//! in is bounded by `bound`, so that nothing a guest says makes a file grow without limit.

#![forbid(unsafe_code)]

mod bound;
mod db;
mod error;
mod journal;
pub mod kinds;
mod writer;

pub use error::Error;
pub use journal::{
    Decided, Decision, DecisionId, Event, Fate, Found, Guest, GuestKey, GuestRow, Journal, Outcome,
    Policy, Pruned, Query, Range, Word, matches_glob,
};
pub use writer::{News, QUEUE_MAX, Ticket, Writer};
