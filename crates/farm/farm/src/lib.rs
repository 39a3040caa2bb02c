//! A farm: the guests of a configuration file, in one poll loop, on tiers of the host's memory.
//!
//! ```text
//!   FARM.toml ─► config ─► fleet ◄── service: the socket of a farm that runs
//!                            │
//!                            └─► tiers: a limit, zram, swap and KSM for all guests
//!   rundir: a directory for each running farm ─► running: all farms, and their tables
//! ```
//!
//! No change of the host outlives the farm, because the tiers record each change before making it.
//! After a kill the next start undoes the recorded changes.
//!
//! JUSTIFICATION for unsafe code: the standard library has no calls for swap. All unsafe code is in
//! the module `sys`.

#![deny(unsafe_code)]

pub mod config;
mod error;
pub mod fleet;
pub mod links;
mod news;
mod password;
mod relay;
pub mod rundir;
pub mod running;
pub mod service;
mod sys;
pub mod tiers;

pub use error::Error;
pub use password::Password;
