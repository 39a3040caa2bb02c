//! Counters, recorded fields and policy decisions, with all their texts. Counters are what rules
//! read. Fields go from a guest's socket to a report's cell, and decisions from a policy to the
//! journal and its readers.
//!
//! ```text
//!   balloon, daemon, kernel ──► [Row] of fields ──► [Moment] ──► [Folder] ──► [Interval]
//!                                   one row: name, unit, kind, source, meaning
//!   policy ──► [clause::Clause] ──► journal ──► `pinhead why`, `ps`, man page
//!                   one row: name, meaning, sentences, the numbers in them
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod clause;
pub mod counters;
mod decision;
mod field;
mod fields;
mod fold;
mod identity;
mod moment;
mod pass;
pub mod quantity;
mod row;

pub use decision::{Bound, Fate, SizeAction};
pub use field::{Field, Kind, Unit};
pub use fields::{GuestField, HostField, PassField, PassGuestField, ProcessField, TierField};
pub use fold::{Fed, Folder, GAP_MS, Gap, minute_of};
pub use identity::{GuestIdentity, ProcessName, has_uuid, is_place, label};
pub use moment::{Interval, Moment, Over, Parts};
pub use pass::{PassEvent, PassGuest, PassInput};
pub use row::Row;
