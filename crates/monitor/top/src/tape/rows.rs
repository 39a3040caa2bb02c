//! Recorded guests in the form of `ps`, with the recorded values only.

use base::natural;
use manager::control::{ASLEEP_PERCENT, GuestRow, GuestRunState, HostRow, KsmRow, Ps};
use model::{GuestField as G, GuestIdentity, HostField as H, Interval, Over};
use std::collections::BTreeMap;

const NS_A_MS: u64 = 1_000_000;

/// Ids of guests, which stay the same from step to step.
#[derive(Debug, Default)]
pub(super) struct Ids(BTreeMap<(String, Option<u32>, String), u64>);

impl Ids {
    fn of(&mut self, uuid: &str, pid: Option<u32>, name: &str) -> u64 {
        let next = self.0.len() as u64 + 1;
        *self.0.entry((uuid.to_owned(), pid, name.to_owned())).or_insert(next)
    }

    /// Returns the id of a guest from the journal.
    pub(super) fn of_guest(&mut self, guest: &model::GuestIdentity) -> u64 {
        self.of(&guest.uuid, guest.pid, &guest.name)
    }
}

pub(super) fn ps(interval: &Interval, ids: &mut Ids) -> Ps {
    let host = HostRow {
        total_bytes: interval.host.get(H::Total),
        available_bytes: interval.host.get(H::Available),
        set_point_bytes: interval.host.get(H::SetPoint).unwrap_or_default(),
        ..HostRow::default()
    };
    let mut guests: Vec<GuestRow> =
        interval.guests.iter().map(|(who, over)| row(who, over, ids)).collect();
    guests.sort_by(|a, b| natural(&a.name, &b.name).then(a.id.cmp(&b.id)));
    Ps { host, ksm: KsmRow::default(), guests }
}

fn row(who: &GuestIdentity, over: &Over<G>, ids: &mut Ids) -> GuestRow {
    let most_ns = over.covered_ms.saturating_mul(NS_A_MS / 100 * ASLEEP_PERCENT);
    let asleep = over.get(G::VcpuRun).map(|run| run < most_ns);
    // A guest counts as parked if it was parked for more than half of the time.
    let is_parked = |parked: u64| parked > over.covered_ms.saturating_mul(NS_A_MS / 2);
    let state = match asleep {
        None => GuestRunState::Silent,
        Some(_) if over.get(G::Parked).is_some_and(is_parked) => GuestRunState::Parked,
        Some(_) => GuestRunState::Running,
    };
    GuestRow {
        id: ids.of(&who.uuid, who.pid, &who.name),
        name: who.name.clone(),
        uuid: who.uuid.clone(),
        pid: who.pid,
        class: (!who.class.is_empty()).then(|| who.class.clone()),
        state,
        asleep: asleep == Some(true),
        // Only a daemon reports these fields.
        daemon: over.get(G::OwnTotal).or(over.get(G::OwnCpus)).is_some(),
        memory_bytes: over.get(G::Memory).unwrap_or_default(),
        actual_bytes: over.get(G::Actual),
        target_bytes: over.get(G::Target),
        min_bytes: over.get(G::Minimum).unwrap_or_default(),
        resident_bytes: over
            .get(G::Private)
            .zip(over.get(G::Hypervisor))
            .map(|(a, b)| a - b.min(a)),
        private_bytes: over.get(G::Private).or(over.get(G::Resident)),
        shared_bytes: over.get(G::Together),
        own_bytes: over.get(G::Hypervisor),
        compressed_bytes: over.get(G::Compressed),
        swapped_bytes: over.get(G::Swapped),
        available_bytes: over.get(G::OwnAvailable),
        reported_bytes: over.get(G::Reported).unwrap_or_default(),
        ..GuestRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Row;

    #[test]
    fn recorded_guests_are_in_natural_order() {
        let mut interval = Interval::default();
        for name in ["g10", "g2", "g1"] {
            let who = GuestIdentity { name: name.into(), ..GuestIdentity::default() };
            interval.guests.insert(who, Over::default());
        }
        let ps = ps(&interval, &mut Ids::default());
        let names: Vec<&str> = ps.guests.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["g1", "g2", "g10"]);
    }

    #[test]
    fn a_guest_parked_for_most_of_an_interval_counts_as_parked() {
        let who = GuestIdentity { name: "web".into(), ..GuestIdentity::default() };
        let state = |values: &[(G, u64)]| {
            let mut of = Row::default();
            values.iter().for_each(|(field, value)| of.set(*field, Some(*value)));
            let over = Over { covered_ms: 60_000, row: of };
            row(&who, &over, &mut Ids::default()).state
        };
        let second = 1_000 * NS_A_MS;
        let ran = (G::VcpuRun, 0);
        assert_eq!(state(&[]), GuestRunState::Silent);
        assert_eq!(state(&[ran]), GuestRunState::Running);
        assert_eq!(state(&[ran, (G::Parked, 30 * second)]), GuestRunState::Running);
        assert_eq!(state(&[ran, (G::Parked, 31 * second)]), GuestRunState::Parked);
    }
}
