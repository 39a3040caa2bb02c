//! A bound on the memory that an input makes a target take.

use std::fs;

/// Memory that one input may take at most, in KiB, beyond what the process has already.
pub const MEMORY_MAX_KIB: u64 = 64 << 10;

/// Runs a target on an input, and panics if it takes too much memory meanwhile. Only the kernel
/// knows of all of it: SQLite has an allocator of its own.
pub fn bounded(run: impl FnOnce()) {
    // The peak is set back to what there is now (proc(5)). Where that is not allowed, the peak may
    // be of another input, and says nothing.
    let is_fresh = fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = kib("VmRSS:");
    run();
    if let (true, Some(before), Some(peak)) = (is_fresh, before, kib("VmHWM:")) {
        let taken = peak.saturating_sub(before);
        assert!(taken <= MEMORY_MAX_KIB, "it took {taken} KiB, more than {MEMORY_MAX_KIB}");
    }
}

/// A line of the process's status.
fn kib(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
