//! `pinhead host` as a library. It moves memory to the guests that need it, safely and with a
//! recorded reason.
//!
//! ```text
//!   hypervisor (QMP, libvirt) ─┐                 ┌─► hypervisor: balloon targets
//!   daemons' ports (wire) ─────┼─► Manager ──────┼─► wire: grants with reasons
//!   control (JSON lines) ──────┘    │  policy::  ├─► store: the journal
//!   machine (/proc) ────────────────┘  arbiter   ├─► keeper: the lease, in a process of its own
//!                                                └─► monitor: what is recorded, in its own thread
//! ```
//!
//! The manager's loop is one thread with one poll. The threads of the monitor and of page-out never
//! delay the loop. Decisions are made in [`policy::arbiter`], which does no I/O. This crate does
//! all I/O.

#![forbid(unsafe_code)]

mod accounts;
mod answers;
mod attach;
mod clock;
pub mod config;
pub mod control;
mod daemon_port;
mod effect;
mod error;
mod groups;
mod guest;
mod guests;
mod journal;
pub mod keeper;
pub mod ksm;
mod lease;
mod machine;
mod memory;
mod monitor;
mod outside;
mod owners;
mod pageout;
mod parked;
mod parking;
mod recorder;
mod requests;
mod run;
mod scan;
mod scrape;
mod sources;
mod start;
mod unseen;
mod users;
mod world;

pub use accounts::number_in;
pub use clock::Clock;
pub use error::Error;
pub use guest::sample::memory_of;
pub use lease::Lease;
pub use machine::{Machine, MachineReader};
pub use monitor::{Live, Monitor, Sink};
pub use pageout::PageOutWorker;
pub use parked::record_again;
pub use run::{Manager, Options, Parts, Signals, Turn};
pub use scrape::{Listen, ScrapeServer};
pub use start::check;
pub use users::Users;
