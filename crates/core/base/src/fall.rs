//! Detection of counters that only seem to fall.

/// Returns true if a counter fell by at most half of its value, and therefore only seems to have
/// fallen. The sum of several counters, such as the idle times of CPUs, can seem to fall because
/// its parts are read at different moments. A restarted counter usually has less than half of its
/// old value.
pub fn is_small_fall(before: u64, now: u64) -> bool {
    (before / 2..before).contains(&now)
}

#[cfg(test)]
mod tests {
    use super::is_small_fall;

    #[test]
    fn counter_below_half_of_its_value_has_started_again() {
        assert!(is_small_fall(100, 99) && is_small_fall(100, 50));
        assert!(!is_small_fall(100, 49) && !is_small_fall(100, 0));
        assert!(!is_small_fall(100, 100) && !is_small_fall(100, 101) && !is_small_fall(0, 0));
    }
}
