//! What is counted, and what was read: the bottom layer.
//!
//! A [`Counter`] names one number that a kernel (or the hypervisor's pool) shows.
//! A program of rules numbers the counters that it needs (its *slots*); a reader
//! fills one row of numbers an interval, in slot order; the [`History`] keeps the
//! last rows. Nothing here reads a file, a clock or a thread: layer 0 is pure.
//!
//! ```text
//!   rules ──► [Counter] (slot order) ──► reader ──► row ──► History ──► rules
//! ```

#![forbid(unsafe_code)]

mod counter;
mod history;
mod host_counter;
mod ksm;
mod tree;

pub use base::{Bytes, Kib, PAGE_KIB, Pages};
pub use counter::{Counter, CpuField, PsiField, PsiLine, PsiResource};
pub use history::History;
pub use host_counter::{HostCounter, HostUnit};
pub use ksm::KsmCounters;
pub use tree::{KernelNames, retired};
