//! Clocks: a monotonic clock for time limits, and this process's CPU time.

use rustix::time::{ClockId, clock_gettime};

/// Returns the time of the monotonic clock, in milliseconds.
pub(crate) fn steady_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec * 1_000 + now.tv_nsec / 1_000_000).unsigned_abs()
}

/// Returns the CPU time of this process, in milliseconds.
pub(crate) fn own_cpu_ms() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    (used.tv_sec * 1_000 + used.tv_nsec / 1_000_000).unsigned_abs()
}
