//! What the arbiter takes of what was said of a guest's memory.

use base::PAGE_BYTES;
use counters::Bytes;
use policy::arbiter::Memory;

/// What a guest told, held within what it can be.
pub fn memory_of(told: &wire::Memory, actual: Bytes, most: Bytes, at_ms: u64) -> Memory {
    let size = |kib: Option<u64>| kib.map(|kib| Bytes(kib.saturating_mul(1024)).min(most));
    Memory {
        at_ms,
        clock_ms: told.uptime_ms,
        actual,
        free: size(told.free_kib),
        available: size(told.available_kib),
        cached: size(told.cached_kib),
        active_file: size(told.active_file_kib),
        swap_free: told.swap_free_kib.map(|kib| Bytes(kib.saturating_mul(1024))),
        swap_in: told.swap_in_pages,
        swap_out: told.swap_out_pages,
        refaults: match (told.refault_file, told.refault_anon) {
            (None, None) => None,
            (file, anon) => Some(file.unwrap_or(0).saturating_add(anon.unwrap_or(0))),
        },
        stalls: told.stalls,
        major_faults: told.major_faults,
        oom_kills: told.oom_kills,
        psi_some_us: told.psi_some_us,
    }
}

/// What a balloon's statistics say, in the same terms.
pub fn memory_of_stats(stats: &hypervisor::BalloonStats, actual: Bytes, at_ms: u64) -> Memory {
    let pages = |size: Option<Bytes>| size.map(|size| size.0 / PAGE_BYTES);
    Memory {
        at_ms,
        clock_ms: stats.updated_s.saturating_mul(1000),
        actual,
        free: stats.free,
        // A driver from before 4.6 does not say; what is free is surely available.
        available: stats.available.or(stats.free),
        cached: stats.caches,
        swap_in: pages(stats.swap_in),
        swap_out: pages(stats.swap_out),
        major_faults: stats.major_faults,
        ..Memory::default()
    }
}
