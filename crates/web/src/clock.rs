//! The clocks: one that never jumps, for what is limited in time.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds of a clock that never jumps.
pub(crate) fn steady_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec * 1_000 + now.tv_nsec / 1_000_000).unsigned_abs()
}

/// CPU time of this process, in milliseconds.
pub(crate) fn own_cpu_ms() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    (used.tv_sec * 1_000 + used.tv_nsec / 1_000_000).unsigned_abs()
}
