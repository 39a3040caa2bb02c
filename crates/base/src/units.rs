//! Units as types, so that pages are never added to KiB.

use std::fmt;

/// KiB in one page of the pool. `cmm_pages` counts pages of 4 KiB on every
/// architecture that has it, and pool requests use the same page.
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
    /// The same amount in KiB.
    pub fn kib(self) -> Kib {
        Kib(self.0.saturating_mul(PAGE_KIB))
    }

    /// The same amount in bytes.
    pub fn bytes(self) -> Bytes {
        Bytes(self.0.saturating_mul(PAGE_BYTES))
    }
}

impl Kib {
    /// The same amount in whole pages, rounded down.
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
    /// None.
    pub const ZERO: Bytes = Bytes(0);

    /// So many MiB.
    pub const fn mib(mib: u64) -> Bytes {
        Bytes(mib.saturating_mul(MIB))
    }

    /// The same amount in whole MiB, rounded down.
    pub const fn as_mib(self) -> u64 {
        self.0 >> 20
    }

    /// What is left without `other`, at least nothing.
    #[must_use]
    pub const fn less(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// So many thousandths of it.
    #[must_use]
    pub const fn permille(self, permille: u64) -> Bytes {
        // In this order a terabyte times a thousand still fits.
        Bytes((self.0 / 1000).saturating_mul(permille) + self.0 % 1000 * permille / 1000)
    }

    /// The same amount in whole pages, rounded down.
    pub fn pages(self) -> Pages {
        Pages(self.0 / PAGE_BYTES)
    }
}
