//! The host's side of a guest's daemon: its reports, the questions to it, and the port to it.
//!
//! ```text
//!   socket ─► Port: budget, frames ─► AgentLink ─► Agent ─► answer ─► socket
//!                                                       └─► DaemonEvent ─► owner
//!   owner: sample, tasks, file, grant, identify ─► AgentLink
//! ```
//!
//! [`Agent`] does no I/O and knows no policy: whether memory is granted, and to whom, is its
//! owner's decision. Whatever a daemon reports is a claim. It is capped at what the guest was
//! started with, and a flood is read within a budget.

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
