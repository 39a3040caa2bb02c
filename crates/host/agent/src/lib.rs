//! The host's side of a guest's daemon: its reports, the requests to it, and its port.
//!
//! ```text
//!   socket ─► Port: budget, frames ─► AgentLink ─► Agent ─► answer ─► socket
//!                                                       └─► DaemonEvent ─► owner
//!   owner: sample, tasks, file, grant, identify ─► AgentLink
//! ```
//!
//! [`Agent`] does no I/O and contains no policy. Its owner decides which guests are granted memory.
//! A daemon's reports may be false, so they are capped at the guest's limits. A flood of messages
//! is read within a budget.

#![forbid(unsafe_code)]

mod agent;
mod bounds;
mod files;
mod link;
mod port;
mod question;
mod tasks;

pub use agent::{Agent, AskCounts, BUSY_PERCENT, DaemonEvent, LOOK_MIN_MS, PoolGrants};
pub use bounds::{GuestBounds, floor};
pub use files::Captured;
pub use link::AgentLink;
pub use port::Port;
pub use tasks::TaskScan;
