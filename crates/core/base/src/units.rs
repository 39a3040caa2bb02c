//! Units as types, so that pages are never added to KiB.

use std::fmt;

/// KiB in one page of the pool. `cmm_pages` counts pages of 4 KiB on every architecture that has
/// this file, and pool requests use the same page size.
pub const PAGE_KIB: u64 = 4;
/// Bytes in one page of the pool.
pub const PAGE_BYTES: u64 = PAGE_KIB * KIB;
/// Bytes in a KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident, $suffix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{}", $suffix), self.0)
            }
        }
    };
}

unit!(
    /// A number of bytes.
    Bytes, " B"
);
unit!(
    /// A number of KiB, the unit of /proc/meminfo.
    Kib, " KiB"
);
unit!(
    /// A number of pages of 4 KiB, the unit of the pool.
    Pages, " pages"
);

impl Pages {
    /// Returns the same amount in KiB.
    pub fn kib(self) -> Kib {
        Kib(self.0.saturating_mul(PAGE_KIB))
    }

    /// Returns the same amount in bytes.
    pub fn bytes(self) -> Bytes {
        Bytes(self.0.saturating_mul(PAGE_BYTES))
    }
}

impl Kib {
    /// Returns the same amount in whole pages, rounded down.
    pub fn pages(self) -> Pages {
        Pages(self.0 / PAGE_KIB)
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(all: I) -> Bytes {
        all.fold(Bytes::ZERO, Bytes::plus)
    }
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// Converts from MiB.
    pub const fn mib(mib: u64) -> Bytes {
        Bytes(mib.saturating_mul(MIB))
    }

    /// Returns the same amount in whole MiB, rounded down.
    pub const fn as_mib(self) -> u64 {
        self.0 >> 20
    }

    /// Returns the nearest whole MiB, for display.
    pub const fn nearest_mib(self) -> u64 {
        self.0.saturating_add(MIB / 2) >> 20
    }

    /// Returns the amount without `other`, at least 0.
    #[must_use]
    pub const fn less(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Returns the sum.
    #[must_use]
    pub const fn plus(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// Returns this share of the amount, in thousandths.
    #[must_use]
    pub const fn permille(self, permille: u64) -> Bytes {
        // Division before multiplication keeps large amounts from overflowing.
        Bytes((self.0 / 1000).saturating_mul(permille) + self.0 % 1000 * permille / 1000)
    }

    /// Returns the same amount in whole pages, rounded down.
    pub fn pages(self) -> Pages {
        Pages(self.0 / PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_mib_is_the_nearest() {
        let all = [0, MIB / 2 - 1, MIB / 2, 2266 * MIB / 10, u64::MAX];
        assert_eq!(all.map(|bytes| Bytes(bytes).nearest_mib()), [0, 0, 1, 227, u64::MAX >> 20]);
    }
}
