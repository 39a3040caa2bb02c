//! Monitor records that a z/VM guest writes about itself. The records of processes and of the
//! system equal those of `mon_procd`, byte for byte, and the records of file systems equal those of
//! `mon_fsstatd`. A further record is pinhead's own.
//!
//! ```text
//!   /proc/PID/* ─► Processes ────┐
//!   /proc/mounts ─► FileSystems ─┼─► zmon: records ─► the caller's device
//!   /proc, /sys ─► own ──────────┘
//! ```
//!
//! This module does not open the device, wait, or read a clock. A missing file is no error,
//! because a process may end between two readings.

mod mounts;
mod names;
mod own;
mod summary;
mod tasks;
mod text;

pub use mounts::{FileSystems, mount};
pub use names::{NAME_MAX, Names};
pub use own::{Rules, own};
pub use tasks::{Now, Processes, ids};
