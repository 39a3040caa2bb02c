//! The limits of a guest, and the capping of its daemon's reports.

use base::{Bytes, PAGE_BYTES};
use wire::Status;

/// Lower limits of a guest's default floor: an amount, and a share of the guest's memory. Debian's
/// Linux 6.12 itself uses 42 MiB of a guest's 96 MiB. A floor of 48 MiB would leave programs less
/// than 1 MiB.
const FLOOR: Bytes = Bytes::mib(64);
const FLOOR_PERMILLE: u64 = 150;

/// Returns the default floor. A guest keeps at least this memory, however large a pool its rules
/// request. A guest without a floor could give up memory that its kernel needs to respond at all.
pub fn floor(memory: Bytes) -> Bytes {
    memory.permille(FLOOR_PERMILLE).max(FLOOR).min(memory)
}

/// The limits that a guest was started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestBounds {
    /// The guest's memory, which is also its maximum.
    pub memory: Bytes,
    /// The guest's CPUs, if known.
    pub cpus: Option<u32>,
}

impl GuestBounds {
    /// Returns the guest's memory in pages of the pool.
    pub fn pages(&self) -> u64 {
        self.memory.0 / PAGE_BYTES
    }

    /// Returns the memory that the guest keeps with a pool of this size.
    pub fn kept(&self, pool_pages: u64) -> Bytes {
        let pool = Bytes(pool_pages.saturating_mul(PAGE_BYTES)).min(self.memory);
        self.memory.less(pool)
    }

    /// Returns the pages of the pool that a guest gets for its request, and the reason if the guest
    /// gets fewer pages than requested.
    pub fn granted(&self, pool_pages: u64, floor: Bytes) -> (u64, String) {
        let most = self.memory.less(floor).0 / PAGE_BYTES;
        let reason = match pool_pages > most {
            true => format!("{} MiB stay with the guest", floor.min(self.memory).0 >> 20),
            false => String::new(),
        };
        (pool_pages.min(most), reason)
    }

    /// Caps a status at these limits.
    pub(crate) fn hold(&self, mut status: Status) -> Status {
        status.pool_pages = status.pool_pages.min(self.pages());
        if let Some(cpus) = self.cpus {
            status.cpus_present = status.cpus_present.min(cpus);
            status.cpus_online = status.cpus_online.clamp(1, cpus.max(1));
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_capped_at_what_the_guest_can_have() {
        let bounds = GuestBounds { memory: Bytes::mib(64), cpus: Some(2) };
        let status = Status {
            cpus_online: 0,
            cpus_present: u32::MAX,
            pool_pages: u64::MAX,
            ..Status::default()
        };
        let held = bounds.hold(status.clone());
        assert_eq!((held.cpus_online, held.cpus_present, held.pool_pages), (1, 2, 64 * 256));
        let bounds = GuestBounds { cpus: None, ..bounds };
        assert_eq!(bounds.hold(status).cpus_present, u32::MAX, "the host does not know better");
    }

    #[test]
    fn a_guest_keeps_its_floor_whatever_it_asks_for() {
        let ask = |pages, mib| {
            let memory = Bytes::mib(mib);
            GuestBounds { memory, cpus: None }.granted(pages, floor(memory))
        };
        assert_eq!(ask(1000, 256), (1000, String::new()));
        assert_eq!(ask(u64::MAX, 256), ((256 - 64) * 256, "64 MiB stay with the guest".into()));
        assert_eq!(ask(u64::MAX, 1000).0, 850 * 256);
        // A guest smaller than the floor keeps everything.
        assert_eq!(ask(u64::MAX, 32).0, 0);
    }

    #[test]
    fn the_memory_that_a_guest_keeps_is_never_negative() {
        let bounds = GuestBounds { memory: Bytes::mib(64), cpus: None };
        assert_eq!(bounds.kept(256), Bytes::mib(63));
        assert_eq!(bounds.kept(u64::MAX), Bytes::ZERO);
    }
}
