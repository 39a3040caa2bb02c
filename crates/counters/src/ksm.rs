//! What the kernel counts of its page sharing.

use crate::Pages;

/// What KSM's counters and its thread's clock say. What could not be read is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KsmCounters {
    /// Pages that are kept once for several.
    pub pages_shared: Option<Pages>,
    /// Pages that need no memory of their own any more: the gain.
    pub pages_sharing: Option<Pages>,
    /// Times that all memory was scanned.
    pub full_scans: Option<u64>,
    /// Gain without what KSM keeps for itself, as the kernel counts it; may be negative.
    pub general_profit_bytes: Option<i64>,
    /// CPU time of its thread since boot, in microseconds.
    pub cpu_us: Option<u64>,
}
