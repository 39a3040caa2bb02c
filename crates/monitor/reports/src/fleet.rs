//! Hosts of a fleet, with fields that a metrics server has already summed.

use crate::Single;
use model::{GuestField, GuestIdentity, HostField as H, Interval, Over};
use std::cmp::Ordering;

/// Time without a sample after which a host counts as silent. By default, hosts push every five
/// seconds.
const SILENT_MS: i64 = 60_000;

/// Returns true if a host is silent. A host with a longer push interval has to miss two pushes.
pub fn is_silent(to_ms: i64, last_ms: i64, spacing_ms: i64) -> bool {
    to_ms.saturating_sub(last_ms) > SILENT_MS.max(spacing_ms.saturating_mul(5) / 2)
}

/// Fields of a host's busy time and of its number of CPUs.
pub const BUSY: [H; 7] =
    [H::Cpus, H::User, H::System, H::Nice, H::Interrupts, H::SoftInterrupts, H::Guest];

/// Returns a host over a time range, with the sums of its guests' fields.
pub fn glanced(
    (from_ms, to_ms): (i64, i64),
    host: Over<H>,
    together: Over<GuestField>,
    guests: u64,
) -> Single {
    let interval = Interval {
        from_ms,
        length_ms: to_ms.saturating_sub(from_ms).max(0).unsigned_abs(),
        host,
        guests: [(GuestIdentity::default(), together)].into(),
        ..Interval::default()
    };
    Single::new(interval, usize::try_from(guests).ok())
}

/// Orders hosts: silent hosts first, because they need attention, and then the busiest host.
pub fn silent_then_busy(a: (bool, &Single), b: (bool, &Single)) -> Ordering {
    let busy = |host: &Single| host.host("busy_percent").unwrap_or(-1.0);
    b.0.cmp(&a.0).then_with(|| busy(b.1).total_cmp(&busy(a.1)))
}

/// Returns the busy time of a host's CPUs, in percent of all CPU time.
pub fn busy_percent(host: Over<H>) -> Option<f64> {
    let interval = Interval { length_ms: host.covered_ms, host, ..Interval::default() };
    Single::new(interval, None).host("busy_percent")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Row;

    #[test]
    fn a_host_is_silent_when_it_has_missed_its_times() {
        assert!(!is_silent(100_000, 40_000, 5_000) && is_silent(100_000, 39_999, 5_000));
        assert!(!is_silent(200_000, 60_000, 60_000) && is_silent(200_000, 49_000, 60_000));
    }

    #[test]
    fn a_host_is_as_busy_as_its_cpus_and_captured_by_its_guests() {
        let mut row = Row::default();
        row.extend([
            (H::Cpus, Some(2)),
            (H::User, Some(500_000_000)),
            (H::System, Some(500_000_000)),
        ]);
        let host = Over { covered_ms: 1_000, row };
        assert_eq!(busy_percent(host.clone()), Some(50.0));
        let mut row = Row::default();
        row.extend([(GuestField::VcpuRun, Some(400_000_000)), (GuestField::OtherRun, Some(0))]);
        let single = glanced((0, 1_000), host, Over { covered_ms: 1_000, row }, 7);
        assert_eq!(single.host("busy_percent"), Some(50.0));
        assert_eq!(single.host("capture_percent"), Some(40.0));
    }
}
