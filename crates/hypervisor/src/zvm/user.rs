//! One of z/VM's users, and what of its memory it has left, by what z/VM counts of it.

use super::name::UserId;
use base::{KIB, PAGE_BYTES};
use counters::Bytes;
use zmon::hypfs::Guest;

/// CP counts some of its own for a user as resident: a part of its size, in thousandths.
const CPS_OWN_PERMILLE: u64 = 10;

/// A user that is logged on.
#[derive(Debug)]
pub(crate) struct User {
    /// What z/VM counted last.
    pub(crate) counted: Guest,
    /// Where messages to it go, if its memory is managed.
    pub(crate) address: Option<UserId>,
    /// What its pool was last told to leave it.
    told: Bytes,
    /// What it has.
    pub(crate) actual: Bytes,
}

impl User {
    /// As it was found: what its pool has nobody tells, and an empty one is assumed.
    pub(crate) fn new(counted: Guest, address: Option<UserId>) -> User {
        let size = size_of(&counted);
        User { counted, address, told: size, actual: size }
    }

    /// What it was defined with.
    pub(crate) fn size(&self) -> Bytes {
        size_of(&self.counted)
    }

    /// What of it is in z/VM's memory.
    pub(crate) fn used(&self) -> Bytes {
        kib(self.counted.memory_used)
    }

    /// The size of the pool that leaves it so much.
    pub(crate) fn pool(&self, left: Bytes) -> u64 {
        self.size().less(left).0 / PAGE_BYTES
    }

    /// It was sent a message with a pool of this size. Growing is done when its kernel hears of it;
    /// what it gives is seen.
    pub(crate) fn told(&mut self, pages: u64) {
        self.told = self.size().less(Bytes(pages.saturating_mul(PAGE_BYTES)));
        self.actual = self.actual.max(self.told);
    }

    /// z/VM has counted again. A kernel does not say how large its pool is, and may have grown it
    /// as far as it could; but nobody has less than what of it is in memory.
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
    fn a_user_has_given_what_is_no_more_in_memory() {
        let mut user = User::new(counted(900), None);
        assert_eq!(user.actual, Bytes::mib(1_000));
        user.told(user.pool(Bytes::mib(600)));
        assert_eq!(user.actual, Bytes::mib(1_000), "nothing was seen of it yet");
        let mut has = |used| {
            user.count(counted(used));
            user.actual.as_mib()
        };
        assert_eq!(has(900), 890, "what was never in memory it may have given");
        assert_eq!(has(700), 690);
        assert_eq!(has(605), 600, "some of it is CP's own");
        assert_eq!(has(300), 600);
        // It was loaded anew, with an empty pool, and uses what it was to leave.
        assert_eq!(has(800), 790);
        user.told(user.pool(Bytes::mib(900)));
        assert_eq!(user.actual, Bytes::mib(900), "what is given back is there at once");
        // What cannot be true is cut to what it was defined with.
        user.count(counted(u64::MAX >> 20));
        assert_eq!(user.actual, Bytes::mib(1_000));
    }
}
