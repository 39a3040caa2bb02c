//! Reports of a guest's memory as the arbiter's input.

use base::PAGE_BYTES;
use counters::Bytes;
use policy::arbiter::Memory;

/// Returns a daemon's sample, capped at the guest's maximum.
pub fn memory_of(sample: &wire::Memory, actual: Bytes, most: Bytes, at_ms: u64) -> Memory {
    let size = |kib: Option<u64>| kib.map(|kib| Bytes(kib.saturating_mul(1024)).min(most));
    Memory {
        at_ms,
        clock_ms: sample.uptime_ms,
        actual,
        free: size(sample.free_kib),
        available: size(sample.available_kib),
        cached: size(sample.cached_kib),
        active_file: size(sample.active_file_kib),
        swap_free: sample.swap_free_kib.map(|kib| Bytes(kib.saturating_mul(1024))),
        swap_in: sample.swap_in_pages,
        swap_out: sample.swap_out_pages,
        refaults: match (sample.refault_file, sample.refault_anon) {
            (None, None) => None,
            (file, anon) => Some(file.unwrap_or(0).saturating_add(anon.unwrap_or(0))),
        },
        stalls: sample.stalls,
        major_faults: sample.major_faults,
        oom_kills: sample.oom_kills,
        psi_some_us: sample.psi_some_us,
    }
}

/// Returns a balloon's statistics in the same form.
pub fn memory_of_stats(stats: &hypervisor::BalloonStats, actual: Bytes, at_ms: u64) -> Memory {
    let pages = |size: Option<Bytes>| size.map(|size| size.0 / PAGE_BYTES);
    Memory {
        at_ms,
        clock_ms: stats.updated_s.saturating_mul(1000),
        actual,
        free: stats.free,
        // The value must equal the recorded value (`Row::put_balloon_as_own`).
        available: stats.available.or(stats.free),
        cached: stats.caches,
        swap_in: pages(stats.swap_in),
        swap_out: pages(stats.swap_out),
        major_faults: stats.major_faults,
        ..Memory::default()
    }
}
