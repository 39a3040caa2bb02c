//! Values derived from a guest's last two samples: rates, hot cache, strain.

use super::sample::Memory;
use base::{Bytes, PAGE_BYTES};

/// Share of the time with a waiting task, in thousandths, from which a guest counts as waiting.
const PSI_STRAINED_PERMILLE: u64 = 10;
/// Pages read from swap per second that count as strain. A single process that is swapped in
/// occasionally causes fewer reads.
const SWAP_IN_STRAINED: u64 = 32;
/// Pages written to swap per second that count as strain.
const SWAP_OUT_STRAINED: u64 = 256;
/// Refaults per second that count as strain: 1 MiB.
const REFAULT_STRAINED: u64 = 256;
/// Major faults per second that count as strain, in a guest that reports no better value.
const MAJOR_FAULTS_STRAINED: u64 = 100;
/// Shortest time over which rates of a guest's counters are meaningful.
const WINDOW_MS_MIN: u64 = 50;

/// The derived memory values of a guest. All values are relative to the guest's size by its
/// balloon. It therefore does not matter if the guest's kernel counts the balloon in MemTotal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryView {
    /// Memory that is not available without swapping.
    pub used: Bytes,
    /// MemAvailable.
    pub available: Bytes,
    /// MemFree, if reported.
    pub free: Option<Bytes>,
    /// Page cache in use.
    pub hot: Bytes,
    /// Free swap space, if reported.
    pub swap_free: Option<Bytes>,
    /// Growth of `used` in a second.
    pub growth: Bytes,
    /// Pages read from swap in a second.
    pub swap_in: Option<u64>,
    /// Pages written to swap in a second.
    pub swap_out: Option<u64>,
    /// Pages refaulted in a second.
    pub refaults: Option<u64>,
    /// Allocations that had to reclaim, in a second.
    pub stalls: Option<u64>,
    /// Time in which some task waited for memory, in thousandths.
    pub psi_permille: Option<u64>,
    /// True if some task waited for memory since the last sample, for any reason.
    pub waits: bool,
    /// True if the guest's balloon moved at the sample, or since the sample before.
    pub moves: bool,
    /// Value of `moves` at the sample before.
    pub moved: bool,
    /// True if something in the guest lacks memory, or lacked memory since the last sample.
    pub strained: bool,
}

impl MemoryView {
    /// Returns the view of a sample, with rates against the sample before.
    pub fn of(before: Option<&Memory>, now: &Memory, urgent: bool) -> Option<MemoryView> {
        let available = now.available?.min(now.actual);
        let used = now.actual.less(available);
        // Without the kernel's number, half of the cache counts as in use.
        let cached = now.cached.unwrap_or(Bytes::ZERO).min(available);
        let hot = now.active_file.unwrap_or(Bytes(cached.0 / 2)).min(available);
        let mut view = MemoryView {
            used,
            available,
            free: now.free,
            hot,
            swap_free: now.swap_free,
            waits: urgent,
            ..MemoryView::default()
        };
        let window_ms = before.and_then(|b| now.clock_ms.checked_sub(b.clock_ms)).unwrap_or(0);
        let Some(before) = before.filter(|_| window_ms >= WINDOW_MS_MIN) else {
            return Some(view);
        };
        let rate = |now: Option<u64>, before: Option<u64>| {
            // A counter that went backwards belongs to another boot, so its rate is unknown.
            Some(now?.checked_sub(before?)?.saturating_mul(1000) / window_ms)
        };
        view.swap_in = rate(now.swap_in, before.swap_in);
        view.swap_out = rate(now.swap_out, before.swap_out);
        view.refaults = rate(now.refaults, before.refaults);
        view.stalls = rate(now.stalls, before.stalls);
        view.psi_permille = rate(now.psi_some_us, before.psi_some_us).map(|us| us / 1000);
        let used_before = before.actual.less(before.available.unwrap_or(before.actual));
        view.growth = Bytes(used.less(used_before).0.saturating_mul(1000) / window_ms);
        let over = |rate: Option<u64>, limit| rate.is_some_and(|rate| rate >= limit);
        let killed = over(rate(now.oom_kills, before.oom_kills), 1);
        let major = rate(now.major_faults, before.major_faults);
        let blind = view.refaults.is_none() && view.psi_permille.is_none();
        view.waits |= over(view.psi_permille, PSI_STRAINED_PERMILLE) || over(view.stalls, 1);
        view.strained = over(view.swap_in, SWAP_IN_STRAINED)
            || over(view.swap_out, SWAP_OUT_STRAINED)
            || over(view.refaults, REFAULT_STRAINED)
            || (blind && over(major, MAJOR_FAULTS_STRAINED))
            || killed;
        Some(view)
    }

    /// Returns true if this headroom is free. If a guest does not report its free memory, its
    /// available memory counts as free.
    pub fn has_free(&self, headroom: Bytes) -> bool {
        self.free.unwrap_or(self.available) >= headroom
    }

    /// Returns cold page cache and free memory.
    pub fn cold(&self) -> Bytes {
        self.available.less(self.hot)
    }

    /// Returns the memory read again in a second, from swap or because of refaults.
    pub fn thrash(&self) -> Bytes {
        let pages = self.swap_in.unwrap_or(0).saturating_add(self.refaults.unwrap_or(0));
        Bytes(pages.saturating_mul(PAGE_BYTES))
    }
}
