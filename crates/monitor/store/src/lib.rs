//! Stores on disk, in SQLite: the journal of the host manager's decisions, and the recordings of
//! the monitor.
//!
//! ```text
//!   manager ─► Writer (queue, one transaction a flush) ─► Journal ─► journal.db
//!                                                                       │
//!   pinhead why, pinhead host diff ◄── Decided, Event, GuestRow ◄── Journal::read_only
//!
//!   monitor ─► Recorder ─► a file a day, a file a month, raw.db
//!                                                      │
//!   pinhead report, pinhead sql ◄── Interval, Moment ◄── Records, Sql
//! ```
//!
//! Each kind of store has a module with its own tables and migrations. `db` contains the common
//! parts: opening, owner check and migration. `bound` limits all inputs, so that no guest can make
//! a file grow without limit.

#![forbid(unsafe_code)]

mod backoff;
mod bound;
mod db;
mod error;
mod held;
mod journal;
pub mod kinds;
mod news;
mod records;
mod writer;

pub use error::Error;
pub use journal::{
    Decided, Decision, DecisionId, Event, Fate, Found, GuestKey, GuestRow, Journal, Outcome,
    Policy, Pruned, Query, Range, Word,
};
pub use news::News;
pub use records::pack;
pub use records::passes::codec as pass_codec;
pub use records::{
    Cell, Column, Keep, Names, PassRecorder, Period, Pick, Processes, Recorder, Records, STEPS_MAX,
    Span, Sql, TableText, Taken, Travel, tables,
};
pub use writer::{QUEUE_MAX, Ticket, Writer};
