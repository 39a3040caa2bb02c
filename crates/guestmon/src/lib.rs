//! What a guest of z/VM writes about itself to the monitor: its processes and the system as
//! `mon_procd` does, its file systems as `mon_fsstatd` does, byte for byte, and a record of our
//! own.
//!
//! ```text
//!   /proc/PID/* ─► Processes ────┐
//!   /proc/mounts ─► FileSystems ─┼─► zmon: records ─► the caller's device
//!   /proc, /sys ─► own ──────────┘
//! ```
//!
//! Nothing here opens the device, waits, or reads a clock. A file that is not there is nothing to
//! tell: a process may end between two looks.

#![forbid(unsafe_code)]

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
