//! What the monitor reads of the host, of guests' processes and of the tiers of memory.
//!
//! ```text
//!   /proc/stat, meminfo, vmstat, pressure, ksm ─► HostReader ─► Row<HostField> ─┐
//!   all other processes, now and then ──────────► Others ─► Row<HostField> ─────┤
//!   /proc/swaps, block devices, zram ───────────► TierReader ─► Row<TierField> ─┤
//!   a guest's process: its virtual CPUs always,                                 │
//!   the rest when they have run ───────────────► GuestReader ─► Row<GuestField> ┤
//!                                                                               ▼
//!   what the manager knows ─► ManagerView ──────────────────────────► Collector ─► Moment
//! ```
//!
//! No guest is woken: all of it is what the host's kernel counts anyway. Files are opened once
//! and read again and again. What a kernel does not have is missing, and never 0; a counter that
//! falls a little, as some of the kernel's do, is held, so that it is not taken for one that
//! started over.

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

pub use collector::{Collector, GuestView, ManagerView};
pub use guest::{Care, GuestReader, Look, Scratch};
pub use host::HostReader;
pub use tier::TierReader;
