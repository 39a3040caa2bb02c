//! What a guest can be, and its daemon's reports capped at that.

use base::PAGE_BYTES;
use counters::Bytes;
use wire::Status;

/// What a guest was started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestBounds {
    /// Its memory: more than this it can never have.
    pub memory: Bytes,
    /// Its CPUs, where they are known.
    pub cpus: Option<u32>,
}

impl GuestBounds {
    /// Its memory in pages of the pool.
    pub fn pages(&self) -> u64 {
        self.memory.0 / PAGE_BYTES
    }

    /// What the guest keeps, without a pool of so many pages.
    pub fn kept(&self, pool_pages: u64) -> Bytes {
        let pool = Bytes(pool_pages.saturating_mul(PAGE_BYTES)).min(self.memory);
        self.memory.less(pool)
    }

    /// A status within these bounds.
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
    fn the_memory_that_a_guest_keeps_is_never_negative() {
        let bounds = GuestBounds { memory: Bytes::mib(64), cpus: None };
        assert_eq!(bounds.kept(256), Bytes::mib(63));
        assert_eq!(bounds.kept(u64::MAX), Bytes::ZERO);
    }
}
