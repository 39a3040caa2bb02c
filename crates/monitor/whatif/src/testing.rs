//! Intervals for tests.

use crate::Past;
use model::{GuestField, GuestIdentity, Interval, Over, Row};

pub(crate) const MIB: u64 = 1 << 20;

/// Returns an interval of one minute with these guests and values.
pub(crate) fn interval(guests: &[(&str, &[(GuestField, u64)])]) -> Interval {
    let guests = guests.iter().map(|(name, values)| {
        let mut row = Row::default();
        row.extend(values.iter().map(|(field, value)| (*field, Some(*value))));
        let who = GuestIdentity { name: (*name).to_owned(), ..GuestIdentity::default() };
        (who, Over { covered_ms: 60_000, row })
    });
    Interval { length_ms: 60_000, guests: guests.collect(), ..Interval::default() }
}

/// Returns guests of 1,000 MiB and 2 CPUs with these needs in MiB, minute by minute.
pub(crate) fn past(guests: &[(&str, &[u64])]) -> Past {
    let mut past = Past::new(60_000);
    let minutes = guests.iter().map(|(_, needs)| needs.len()).max().unwrap_or(0);
    for minute in 0..minutes {
        let rows: Vec<(&str, Vec<(GuestField, u64)>)> = guests
            .iter()
            .filter_map(|(name, needs)| {
                let need = needs.get(minute)?;
                let values = vec![
                    (GuestField::Memory, 1000 * MIB),
                    (GuestField::Vcpus, 2),
                    (GuestField::Actual, 1000 * MIB),
                    (GuestField::OwnAvailable, 1000u64.saturating_sub(*need) * MIB),
                    (GuestField::VcpuRun, need * 60_000_000),
                ];
                Some((*name, values))
            })
            .collect();
        let rows: Vec<(&str, &[(GuestField, u64)])> =
            rows.iter().map(|(name, values)| (*name, values.as_slice())).collect();
        past.add(&interval(&rows));
    }
    past
}
