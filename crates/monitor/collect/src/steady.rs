//! Handling of counters that fall slightly.

use base::is_small_fall;
use model::{Field, Kind, Row};

/// Keeps the old value of counters that fell slightly since the last row, and saves the row for the
/// next comparison.
///
/// The kernel sums some counters from parts read at different moments, so idle time can fall
/// slightly. If such a fall were taken for a restart, all time since boot would count again.
pub(crate) fn hold<F: Field>(row: &mut Row<F>, last: &mut Row<F>) {
    for field in F::ALL.iter().filter(|field| field.kind() == Kind::Counter) {
        if let (Some(now), Some(before)) = (row.get(*field), last.get(*field))
            && is_small_fall(before, now)
        {
            row.set(*field, Some(before));
        }
    }
    last.clone_from(row);
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::TierField;

    #[test]
    fn a_small_fall_is_ignored_and_a_restart_is_recognised() {
        let mut last = Row::<TierField>::default();
        let mut shown = |reads: Option<u64>, used: u64| {
            let mut row = Row::default();
            row.set(TierField::Reads, reads);
            row.set(TierField::Used, Some(used));
            hold(&mut row, &mut last);
            (row.get(TierField::Reads), row.get(TierField::Used))
        };
        assert_eq!(shown(Some(1000), 9), (Some(1000), Some(9)));
        assert_eq!(shown(Some(998), 8), (Some(1000), Some(8)), "a gauge may fall");
        assert_eq!(shown(Some(1001), 8), (Some(1001), Some(8)));
        assert_eq!(shown(Some(3), 8), (Some(3), Some(8)));
        assert_eq!(shown(None, 8), (None, Some(8)));
        assert_eq!(shown(Some(2), 8), (Some(2), Some(8)));
    }
}
