//! Time-of-day clock of the machine.

/// Units of the clock in a microsecond; bit 51 is one microsecond.
pub const TICKS_PER_US: u64 = 4096;
/// 1970 on a clock that starts at 1900.
const EPOCH: u64 = 0x7d91_048b_ca00_0000;

/// A time of the clock. CPU times use the same unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tod(pub u64);

impl Tod {
    /// Returns milliseconds since 1970, or `None` for an earlier time.
    pub fn ms(self) -> Option<i64> {
        let us = self.0.checked_sub(EPOCH)? / TICKS_PER_US;
        i64::try_from(us / 1_000).ok()
    }

    /// Returns the clock at a time, which must be between 1900 and 2042.
    pub fn of_ms(ms: i64) -> Option<Tod> {
        let us = u64::try_from(ms).ok()?.checked_mul(1_000)?;
        us.checked_mul(TICKS_PER_US)?.checked_add(EPOCH).map(Tod)
    }
}

/// Converts the clock's units to nanoseconds.
pub fn ns_of_ticks(ticks: u64) -> u64 {
    // 1,000 / 4,096, without overflow of the product.
    ticks / 512 * 125 + ticks % 512 * 125 / 512
}

/// Converts nanoseconds to the clock's units, rounded up so that converting back is exact.
pub fn ticks_of_ns(ns: u64) -> u64 {
    let rest = (ns % 125 * 512).div_ceil(125);
    (ns / 125).saturating_mul(512).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_that_of_1900() {
        assert_eq!(Tod(EPOCH).ms(), Some(0));
        assert_eq!(Tod(0).ms(), None);
        let ms = 1_763_700_000_123;
        assert_eq!(Tod::of_ms(ms).and_then(Tod::ms), Some(ms));
        assert_eq!(Tod::of_ms(-1), None);
        // The clock ends on 17 September 2042, at 23:53:47.370.
        assert_eq!(Tod(u64::MAX).ms(), Some(2_294_610_827_370));
        assert_eq!(Tod::of_ms(i64::MAX), None);
        assert_eq!(ns_of_ticks(4_096_000), 1_000_000);
        for ns in [0, 1, 2, 124, 125, 126, 999_999_999, 86_400_000_000_007] {
            assert_eq!(ns_of_ticks(ticks_of_ns(ns)), ns);
        }
        assert_eq!(ns_of_ticks(u64::MAX), 4_503_599_627_370_495_999);
    }
}
