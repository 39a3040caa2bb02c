//! Counters that fall.

/// Whether a counter only seems to have fallen: it was read a little early, or its parts were not
/// all read at one moment, as with idle time. What has begun anew has, as a rule, less than half of
/// what it had.
pub fn is_small_fall(before: u64, now: u64) -> bool {
    (before / 2..before).contains(&now)
}

#[cfg(test)]
mod tests {
    use super::is_small_fall;

    #[test]
    fn half_of_what_it_had_is_where_it_begins_anew() {
        assert!(is_small_fall(100, 99) && is_small_fall(100, 50));
        assert!(!is_small_fall(100, 49) && !is_small_fall(100, 0));
        assert!(!is_small_fall(100, 100) && !is_small_fall(100, 101) && !is_small_fall(0, 0));
    }
}
