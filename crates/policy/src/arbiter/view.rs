//! What follows from a guest's last two samples: rates, heat, strain.

use super::sample::Memory;
use base::PAGE_BYTES;
use counters::Bytes;

/// Some task waited for memory for more than this part of the time.
const PSI_STRAINED_PERMILLE: u64 = 10;
/// Pages a second from swap: one process that comes back now and then is not a strain.
const SWAP_IN_STRAINED: u64 = 32;
/// Pages a second to swap.
const SWAP_OUT_STRAINED: u64 = 256;
/// Pages a second that were dropped too early: 1 MiB.
const REFAULT_STRAINED: u64 = 256;
/// Faults that had to read, a second, in a guest that reports nothing better.
const MAJOR_FAULTS_STRAINED: u64 = 100;
/// A guest's counters over a shorter time than this mean little.
const WINDOW_MS_MIN: u64 = 50;

/// A guest's memory, derived. All of it is taken against what the guest has by its balloon, so
/// that it means the same whether or not its kernel counts the balloon in MemTotal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryView {
    /// What cannot be had without swapping.
    pub used: Bytes,
    /// MemAvailable.
    pub available: Bytes,
    /// MemFree, where it was reported.
    pub free: Option<Bytes>,
    /// Page cache that is in use.
    pub hot: Bytes,
    /// Free swap space, where it was reported.
    pub swap_free: Option<Bytes>,
    /// How much `used` grew in a second.
    pub growth: Bytes,
    /// Pages read from swap in a second.
    pub swap_in: Option<u64>,
    /// Pages written to swap in a second.
    pub swap_out: Option<u64>,
    /// Pages dropped too early in a second.
    pub refaults: Option<u64>,
    /// Allocations that had to reclaim, in a second.
    pub stalls: Option<u64>,
    /// Time in which some task waited for memory, in thousandths.
    pub psi_permille: Option<u64>,
    /// Some task waited for memory since the last sample, for whatever reason.
    pub waits: bool,
    /// Its balloon was on its way when it was asked, or has moved since it was asked before.
    pub moves: bool,
    /// The same of the time before.
    pub moved: bool,
    /// Something in the guest lacks memory, or did since the last sample.
    pub strained: bool,
}

impl MemoryView {
    /// The view of a sample, with the one before it for the rates.
    pub fn of(before: Option<&Memory>, now: &Memory, urgent: bool) -> Option<MemoryView> {
        let available = now.available?.min(now.actual);
        let used = now.actual.less(available);
        // Without the kernel's word half of the cache counts as in use.
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
            // A counter that went backwards belongs to another boot: nothing is known.
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

    /// Page cache that nobody used again, and free memory.
    pub fn cold(&self) -> Bytes {
        self.available.less(self.hot)
    }

    /// Memory that came back too late, in a second.
    pub fn thrash(&self) -> Bytes {
        let pages = self.swap_in.unwrap_or(0).saturating_add(self.refaults.unwrap_or(0));
        Bytes(pages.saturating_mul(PAGE_BYTES))
    }
}
