//! What the monitor reads of the host, of guests' processes and of the tiers of memory.
//!
//! ```text
//!   /proc/stat, meminfo, vmstat, pressure, ksm ─► HostReader ─► Row<HostField> ─┐
//!   /proc/swaps, block devices, zram ───────────► TierReader ─► Row<TierField> ─┤
//!   a guest's process: its virtual CPUs always,                                 │
//!   the rest when they have run ───────────────► GuestReader ─► Row<GuestField> ┤
//!                                                                               ▼
//!   what the manager knows ─► Sketch ───────────────────────────────► Collector ─► Moment
//! ```
//!
//! No guest is woken: all of it is what the host's kernel counts anyway. Files are opened once
//! and read again and again. What a kernel does not have is missing, and never 0; a counter that
//! falls a little, as some of the kernel's do, is held, so that it is not taken for one that
//! began anew.

#![forbid(unsafe_code)]

mod accelerator;
mod collector;
mod group;
mod guest;
mod host;
mod steady;
mod text;
mod threads;
mod tier;

#[cfg(test)]
mod testing;

pub use collector::{Collector, Known, Sketch};
pub use guest::{Care, GuestReader, Look, Scratch};
pub use host::HostReader;
pub use tier::TierReader;
