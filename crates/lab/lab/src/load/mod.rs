//! Load on guests, and their latencies: from outside by HTTP, from inside by a command.
//!
//! ```text
//!   targets ─► Plan ─► schedule (pure: client, target, time) ┐
//!                                                            ├─► engine: one thread, one poll
//!                      http (bytes to an answer, no I/O) ────┘        │
//!                                                                     ▼
//!   Job ─► Exec (a command in a guest) ─► Report          Tally ─► Outcome ─► text, JSON
//! ```
//!
//! A latency is counted from the intended start of the request. In an open loop the start times are
//! fixed beforehand. So a server that stalls for a second is charged with every request of that
//! second, not only with the request in progress. A closed loop can be corrected likewise if its
//! usual interval is known.

mod clock;
mod connection;
mod engine;
mod error;
pub mod http;
pub mod job;
mod outcome;
mod plan;
mod schedule;
mod tally;
mod target;

pub use engine::{Progress, run};
pub use error::Error;
pub use job::{Exec, ExecError, ExecOutput, Job};
pub use outcome::{Outcome, Row};
pub use plan::{CLIENTS_MAX, DURATION_MAX, Pattern, Plan, RATE_MAX, Reuse};
pub use tally::{Failure, Latency, Tally};
pub use target::{TARGETS_MAX, Target, class_by_tens, parse_targets};
