//! Samples of a guest's memory: the fields that are recorded, and the arbiter's input from them.

use base::{Bytes, KIB};
use model::{GuestField as G, Row};
use policy::arbiter::Memory;

/// Nanoseconds in a millisecond.
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

/// Returns a sample of a daemon or a balloon as the arbiter's input.
pub fn memory_of(row: &Row<G>, actual: Bytes, at_ms: u64) -> Memory {
    let size = |field| row.get(field).map(Bytes);
    let clock_ns = row.get(G::OwnTime).or(row.get(G::BalloonTime));
    Memory {
        at_ms,
        clock_ms: clock_ns.unwrap_or(0) / NS_PER_MS,
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
