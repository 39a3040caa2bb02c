//! `pinhead host` as a library: memory goes where it is needed, safely, with a reason.
//!
//! ```text
//!   hypervisor (QMP, libvirt) ─┐                 ┌─► hypervisor: balloon targets
//!   daemons' ports (wire) ─────┼─► Manager ──────┼─► wire: grants with reasons
//!   control (JSON lines) ──────┘    │  policy::  ├─► store: the journal
//!   machine (/proc) ────────────────┘  arbiter   ├─► keeper: the lease, in a process of its own
//!                                                └─► monitor: what is recorded, in its own thread
//! ```
//!
//! One thread and one poll, and the monitor's thread, for which nobody waits. Decisions are taken
//! in [`policy::arbiter`], which does no I/O; here is everything that it must not do.

#![forbid(unsafe_code)]

mod attach;
mod book;
mod clock;
pub mod config;
pub mod control;
mod error;
mod events;
mod feed;
mod guest;
mod inside;
pub mod keeper;
pub mod ksm;
mod lease;
mod machine;
mod manager;
mod monitor;
mod operator;
mod outside;
mod pass;
mod policy_engine;
mod requests;
mod rows;
mod scan;
mod scrape;
mod start;
mod upkeep;

pub use clock::Clock;
pub use error::Error;
pub use feed::Feed;
pub use lease::Lease;
pub use machine::{Machine, MachineReader};
pub use manager::{Manager, Options, Parts, Signals, Turn};
pub use monitor::{Live, Monitor, Sink};
pub use scrape::{Listen, Scrape};
