//! Bound on the memory that a target uses for an input.

use std::fs;

/// Maximum memory for one input, in KiB, in addition to the memory that the process had before.
pub const MEMORY_MAX_KIB: u64 = 64 << 10;

/// Runs a target on an input, and panics if the target uses too much memory. The kernel's counters
/// are used, because SQLite has its own allocator.
pub fn bounded(run: impl FnOnce()) {
    // Resets the peak to the current value (proc(5)). If a reset is not permitted, the peak may
    // come from another input, and is ignored.
    let is_fresh = fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = kib("VmRSS:");
    run();
    if let (true, Some(before), Some(peak)) = (is_fresh, before, kib("VmHWM:")) {
        let taken = peak.saturating_sub(before);
        assert!(taken <= MEMORY_MAX_KIB, "it took {taken} KiB, more than {MEMORY_MAX_KIB}");
    }
}

fn kib(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
