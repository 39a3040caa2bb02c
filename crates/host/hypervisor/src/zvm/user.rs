//! One z/VM user, and an estimate of its memory from z/VM's counters.

use super::name::UserId;
use base::{Bytes, KIB, PAGE_BYTES};
use zmon::hypfs::Guest;

/// Part of a user's size that CP uses for itself and counts as resident, in thousandths.
const CPS_OWN_PERMILLE: u64 = 10;

#[derive(Debug)]
pub(crate) struct User {
    /// The last counters of z/VM.
    pub(crate) counted: Guest,
    /// Destination of messages, if the user's memory is managed.
    pub(crate) address: Option<UserId>,
    /// Size of the user's memory by the last message.
    told: Bytes,
    pub(crate) actual: Bytes,
}

impl User {
    /// Creates a user as found. The size of its pool is unknown and assumed to be 0.
    pub(crate) fn new(counted: Guest, address: Option<UserId>) -> User {
        let size = size_of(&counted);
        User { counted, address, told: size, actual: size }
    }

    pub(crate) fn size(&self) -> Bytes {
        size_of(&self.counted)
    }

    /// Returns the user's memory that is resident in z/VM.
    pub(crate) fn used(&self) -> Bytes {
        kib(self.counted.memory_used)
    }

    /// Returns the pool size, in pages, that leaves the user memory of size `left`.
    pub(crate) fn pool(&self, left: Bytes) -> u64 {
        self.size().less(left).0 / PAGE_BYTES
    }

    /// Notes that a message has requested a pool of this size. Growth of the user's memory counts
    /// at once. A reduction counts when the counters show it.
    pub(crate) fn told(&mut self, pages: u64) {
        self.told = self.size().less(Bytes(pages.saturating_mul(PAGE_BYTES)));
        self.actual = self.actual.max(self.told);
    }

    /// Handles new counters of z/VM. The kernel does not report the size of its pool, which may be
    /// smaller than requested. The estimate is never below the resident memory.
    pub(crate) fn count(&mut self, counted: Guest) {
        self.counted = counted;
        let least = self.used().less(self.size().permille(CPS_OWN_PERMILLE));
        self.actual = self.told.max(least).min(self.size());
    }
}

fn kib(size: u64) -> Bytes {
    Bytes(size.saturating_mul(KIB))
}

fn size_of(counted: &Guest) -> Bytes {
    kib(counted.memory_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(used_mib: u64) -> Guest {
        Guest { memory_max: 1_000 << 10, memory_used: used_mib << 10, ..Guest::default() }
    }

    #[test]
    fn user_size_follows_its_resident_memory() {
        let mut user = User::new(counted(900), None);
        assert_eq!(user.actual, Bytes::mib(1_000));
        user.told(user.pool(Bytes::mib(600)));
        assert_eq!(user.actual, Bytes::mib(1_000), "no effect counted yet");
        let mut has = |used| {
            user.count(counted(used));
            user.actual.as_mib()
        };
        assert_eq!(has(900), 890, "untouched memory may be given");
        assert_eq!(has(700), 690);
        assert_eq!(has(605), 600, "some of it is CP's own");
        assert_eq!(has(300), 600);
        // The module was loaded again with an empty pool, and the memory is in use.
        assert_eq!(has(800), 790);
        user.told(user.pool(Bytes::mib(900)));
        assert_eq!(user.actual, Bytes::mib(900), "growth counts at once");
        // Impossible counters are capped at the defined size.
        user.count(counted(u64::MAX >> 20));
        assert_eq!(user.actual, Bytes::mib(1_000));
    }
}
