//! What a guest gets of what it asks for: a pure step.

use base::PAGE_KIB;
use wire::{Grant, PoolRequest};

/// What a guest keeps whatever it asks for. A guest without a floor could give away
/// what its kernel needs to answer at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The least that any guest keeps, in MiB.
    pub mib: u64,
    /// The least share of its memory that a guest keeps, in percent.
    pub percent: u64,
}

impl Default for Floor {
    /// As a host manager's. Linux 6.12 of Debian keeps 42 MiB of 96 for itself: in 48 MiB it has
    /// less than 1 MiB for a program.
    fn default() -> Floor {
        Floor { mib: 64, percent: 15 }
    }
}

impl Floor {
    /// The pages that a guest of so much memory keeps.
    fn pages(self, memory_mib: u64) -> u64 {
        let share = memory_mib * self.percent / 100;
        self.mib.max(share).min(memory_mib) * 1024 / PAGE_KIB
    }
}

/// The answer to a request, before the hypervisor has done its part.
pub(crate) fn decide(request: PoolRequest, memory_mib: u64, floor: Floor) -> Grant {
    let memory = memory_mib * 1024 / PAGE_KIB;
    let kept = floor.pages(memory_mib);
    let most = memory - kept;
    let reason = match request.pages > most {
        true => format!("{} MiB stay with the guest", kept * PAGE_KIB / 1024),
        false => String::new(),
    };
    Grant { sequence: request.sequence, pages: request.pages.min(most), reason }
}

/// The memory that the hypervisor leaves to the guest.
pub(crate) fn kept_bytes(memory_mib: u64, pool_pages: u64) -> u64 {
    let kib = (memory_mib * 1024).saturating_sub(pool_pages.saturating_mul(PAGE_KIB));
    kib * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_keeps_its_floor_whatever_it_asks_for() {
        let floor = Floor::default();
        let ask = |pages, memory_mib| decide(PoolRequest { sequence: 7, pages }, memory_mib, floor);
        assert_eq!(ask(1000, 256), Grant { sequence: 7, pages: 1000, reason: String::new() });
        let all = ask(u64::MAX, 256);
        assert_eq!(all.pages, (256 - 64) * 256);
        assert_eq!(all.reason, "64 MiB stay with the guest");
        assert_eq!(ask(u64::MAX, 1000).pages, 850 * 256);
        // A guest smaller than the floor keeps everything.
        assert_eq!(ask(u64::MAX, 32).pages, 0);
    }

    #[test]
    fn what_the_guest_keeps_and_what_it_gives_add_up() {
        assert_eq!(kept_bytes(256, 0), 256 << 20);
        assert_eq!(kept_bytes(256, 256), 255 << 20);
        assert_eq!(kept_bytes(256, u64::MAX), 0);
    }
}
