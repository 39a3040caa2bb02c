//! Readers of the host, of guests' processes and of the tiers of memory.
//!
//! ```text
//!   /proc/stat, meminfo, vmstat, pressure, ksm ─► HostReader ─► Row<HostField> ─┐
//!   all other processes, now and then ──────────► Others ─► Row<HostField> ─────┤
//!   /proc/swaps, block devices, zram ───────────► TierReader ─► Row<TierField> ─┤
//!   a guest's process: its virtual CPUs always,                                 │
//!   the rest when they have run ───────────────► GuestReader ─► Row<GuestField> ┤
//!                                                                               ▼
//!   manager state ──────────► Moment, GuestProcess ─────────────────► Collector ─► Moment
//! ```
//!
//! No guest is woken, because all data are counters that the host's kernel maintains anyway. Files
//! are opened once and read repeatedly. A value that the kernel lacks is missing, and never 0. Some
//! kernel counters fall slightly. Such a counter keeps its old value, so that the fall is not
//! mistaken for a restart.

#![deny(unsafe_code)]

mod accelerator;
mod bursts;
mod collector;
mod devices;
mod group;
mod guest;
mod host;
mod others;
mod steady;
mod sys;
mod threads;
mod tier;
mod watermarks;

#[cfg(test)]
mod testing;

pub use collector::{Collector, GuestProcess};
pub use guest::{Care, GuestReader, Look, Scratch};
pub use host::HostReader;
pub use tier::TierReader;
