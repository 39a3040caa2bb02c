//! A model of a host and its guests, on which policies are tried.
//!
//! ```text
//!   seed ─► scenario ─► World { host, guests } ──samples──► Policy (ours, policy::rivals)
//!                          ▲   │ truth                          │
//!                          │   └──────► check ◄─────────────────┤
//!                          └───────────── targets ◄─────────────┘
//! ```
//!
//! There is no clock, no thread and no floating point: a seed gives the same run everywhere, byte
//! for byte. The model contains the real waits of a guest's programs. [`check`] judges by these
//! waits, which a policy does not see. [`figures`] are the scenes of the table in
//! docs/benchmarks.md, [`table`] is docs/policies.md, [`accidents`] is docs/accidents.md. [`day`]
//! is separate: it makes a day of many guests from recordings of a few.

#![forbid(unsafe_code)]

pub mod accidents;
pub mod balloon;
pub mod check;
pub mod day;
pub mod figures;
pub mod guest;
pub mod load;
mod member;
pub mod policies;
pub mod scenario;
pub mod table;
mod tally;
pub mod world;
pub mod zvm;
