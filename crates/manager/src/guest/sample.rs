//! Reports of a guest's memory: the fields that are recorded, and the arbiter's input from them.

use base::KIB;
use counters::Bytes;
use hypervisor::BalloonStats;
use model::{GuestField as G, Row};
use policy::arbiter::Memory;

const NS_PER_S: u64 = 1_000_000_000;
pub const NS_PER_MS: u64 = 1_000_000;
const NS_PER_US: u64 = 1_000;

/// Returns a size in the daemons' unit as bytes.
pub fn bytes(kib: Option<u64>) -> Option<u64> {
    kib.map(|kib| kib.saturating_mul(KIB))
}

/// Returns a daemon's sample, capped at the guest's maximum.
pub fn of_daemon(sample: &wire::Memory, most: Bytes) -> Row<G> {
    let size = |kib: Option<u64>| bytes(kib).map(|bytes| bytes.min(most.0));
    let ns = |us: Option<u64>| us.and_then(|us| us.checked_mul(NS_PER_US));
    let mut row = Row::default();
    row.extend([
        (G::OwnTime, sample.uptime_ms.checked_mul(NS_PER_MS)),
        (G::OwnTotal, size(sample.total_kib)),
        (G::OwnFree, size(sample.free_kib)),
        (G::OwnAvailable, size(sample.available_kib)),
        (G::OwnCached, size(sample.cached_kib)),
        (G::OwnActiveFile, size(sample.active_file_kib)),
        (G::OwnInactiveFile, size(sample.inactive_file_kib)),
        (G::OwnAnonymous, size(sample.anon_kib)),
        (G::OwnSwapTotal, bytes(sample.swap_total_kib)),
        (G::OwnSwapFree, bytes(sample.swap_free_kib)),
        (G::OwnSwapIn, sample.swap_in_pages),
        (G::OwnSwapOut, sample.swap_out_pages),
        (G::OwnRefaultFile, sample.refault_file),
        (G::OwnRefaultAnonymous, sample.refault_anon),
        (G::OwnStalls, sample.stalls),
        (G::OwnOomKills, sample.oom_kills),
        (G::OwnMajorFaults, sample.major_faults),
        (G::OwnPsiSome, ns(sample.psi_some_us)),
        (G::OwnPsiFull, ns(sample.psi_full_us)),
    ]);
    row
}

/// Returns a balloon's statistics, unchanged and in the daemon's fields.
pub fn of_balloon(stats: &BalloonStats) -> Row<G> {
    let size = |size: Option<Bytes>| size.map(|bytes| bytes.0);
    let mut row = Row::default();
    row.extend([
        (G::BalloonTime, stats.updated_s.checked_mul(NS_PER_S)),
        (G::BalloonTotal, size(stats.total)),
        (G::BalloonFree, size(stats.free)),
        (G::BalloonAvailable, size(stats.available)),
        (G::BalloonCached, size(stats.caches)),
        (G::BalloonSwapIn, size(stats.swap_in)),
        (G::BalloonSwapOut, size(stats.swap_out)),
        (G::BalloonMajorFaults, stats.major_faults),
    ]);
    row.put_balloon_as_own();
    row
}

/// Returns a sample as the arbiter's input.
pub fn memory_of(row: &Row<G>, clock_ms: u64, actual: Bytes, at_ms: u64) -> Memory {
    let size = |field| row.get(field).map(Bytes);
    Memory {
        at_ms,
        clock_ms,
        actual,
        free: size(G::OwnFree),
        available: size(G::OwnAvailable),
        cached: size(G::OwnCached),
        active_file: size(G::OwnActiveFile),
        swap_free: size(G::OwnSwapFree),
        swap_in: row.get(G::OwnSwapIn),
        swap_out: row.get(G::OwnSwapOut),
        refaults: match (row.get(G::OwnRefaultFile), row.get(G::OwnRefaultAnonymous)) {
            (None, None) => None,
            (file, anon) => Some(file.unwrap_or(0).saturating_add(anon.unwrap_or(0))),
        },
        stalls: row.get(G::OwnStalls),
        major_faults: row.get(G::OwnMajorFaults),
        oom_kills: row.get(G::OwnOomKills),
        psi_some_us: row.get(G::OwnPsiSome).map(|ns| ns / NS_PER_US),
    }
}
