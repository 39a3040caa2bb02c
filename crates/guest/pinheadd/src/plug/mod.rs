//! The changes that a guest's daemon makes, and their restoration.
//!
//! ```text
//!   decision ──► Cpus  ──► cpuN/online
//!           └──► Pool  ──► cmm_pages (CmmPool), or a request to the host
//!   before the first change: UndoRecord ──► a file ──► after a crash: undo
//! ```
//!
//! Every path starts at a [`Root`](procfs::Root), so that tests act on a tree of plain files. The
//! policy, and not this module, decides how many CPUs and how much memory a guest has. This module
//! guarantees that the last CPU never goes offline, and that the state found at the start can be
//! restored.

mod balloon;
mod conflicts;
mod cpus;
mod error;
pub(crate) mod fsio;
mod pool;
mod undo;

pub use balloon::balloon_deflates_on_oom;
pub use conflicts::conflicts;
pub use cpus::{Cpus, Polarization, PresentCpus, without};
pub use error::Error;
pub use pool::{CmmPool, Pool};
pub use procfs::CpuList as CpuSet;
pub use undo::{BadRecord, UndoRecord, boot_id};
