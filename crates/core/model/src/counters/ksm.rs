//! The kernel's counters of page sharing.

use base::Pages;

/// Counters of KSM, and the CPU time of its thread. Unreadable values are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KsmCounters {
    /// Pages kept once in place of several equal pages.
    pub pages_shared: Option<Pages>,
    /// Pages that no longer need memory of their own: the memory that KSM saves.
    pub pages_sharing: Option<Pages>,
    /// Number of complete scans of all memory.
    pub full_scans: Option<u64>,
    /// The saved memory minus KSM's own memory, as the kernel counts both; may be negative.
    pub general_profit_bytes: Option<i64>,
    /// CPU time of KSM's thread since boot, in microseconds.
    pub cpu_us: Option<u64>,
}
