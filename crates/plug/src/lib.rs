//! What a guest's daemon may change, and how it is changed back.
//!
//! ```text
//!   decision ──► Cpus  ──► cpuN/online
//!           └──► Pool  ──► cmm_pages (CmmPool), or a request to the host
//!   before the first change: UndoRecord ──► a file ──► after a crash: undo
//! ```
//!
//! Every path starts at a [`Root`](procfs::Root), so that tests act on a tree of
//! plain files. Nothing here decides anything: how many CPUs and how much memory
//! a guest shall have is the policy's business. What is held here is that the last
//! CPU never goes offline, and that what was found at the start can be restored.

#![forbid(unsafe_code)]

mod balloon;
mod conflicts;
mod cpus;
mod error;
mod fsio;
mod pool;
mod undo;

pub use balloon::balloon_deflates_on_oom;
pub use conflicts::conflicts;
pub use cpus::{Cpus, Polarization, PresentCpus, without};
pub use error::Error;
pub use pool::{CmmPool, Pool};
pub use procfs::CpuList as CpuSet;
pub use undo::{BadRecord, UndoRecord, boot_id};
