//! Many guests as one: what a file asks for, in one poll loop, in tiers of the host's memory.
//!
//! ```text
//!   FARM.toml ─► config ─► fleet ◄── service: the socket of a farm that runs
//!                            │
//!                            └─► tiers: a limit, zram, swap and KSM for all of them
//! ```
//!
//! Nothing outlives its owner: what the tiers change of the host is written down before and undone,
//! at the latest by the next start.
//!
//! JUSTIFICATION for unsafe code: the standard library has no calls for swap. They are in the
//! module `sys`, and nowhere else is unsafe code allowed.

#![deny(unsafe_code)]

pub mod config;
mod error;
pub mod fleet;
pub mod links;
mod news;
mod password;
mod relay;
pub mod service;
mod sys;
pub mod tiers;

pub use error::Error;
pub use password::Password;
