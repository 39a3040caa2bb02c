//! The names of counters and the history of their values.
//!
//! ```text
//!   rules ──► [Counter] (slot order) ──► reader ──► row ──► History ──► rules
//! ```
//!
//! A [`Counter`] names one value that a kernel (or the hypervisor's pool) shows. A program of rules
//! gives each counter that it uses a number, the counter's *slot*. In each interval, a reader fills
//! one row of values in slot order. The [`History`] keeps the last rows.

mod counter;
mod history;
mod host_counter;
mod ksm;
mod tree;

pub use counter::{Counter, CpuField, PsiField, PsiLine, PsiResource};
pub use history::History;
pub use host_counter::{HostCounter, HostUnit};
pub use ksm::KsmCounters;
pub use tree::{KernelNames, retired};
