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
//! fixed beforehand. So if a server stalls for a second, the waits of all requests of that second
//! count, and not only the wait of one request. The latencies of a closed loop can be corrected in
//! the same way, if the usual interval of its requests is known.

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
pub use job::{Exec, ExecError, Job};
pub use outcome::{Outcome, Row};
pub use plan::{CLIENTS_MAX, DURATION_MAX, Pattern, Plan, RATE_MAX, Reuse};
pub use tally::{Failure, Latency, Tally};
pub use target::{TARGETS_MAX, Target, class_by_tens, parse_targets};
