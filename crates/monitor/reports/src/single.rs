//! Report fields of the host, a guest, a tier or a process in a single interval, for screens and
//! pages without a whole report.

use crate::facts::{Added, Facts};
use crate::fields::{Scope, field};
use crate::gather::end_of;
use model::{Field, GuestField, Interval, Over, ProcessField, TierField};

/// An interval, with the sums of its guests and tiers.
#[derive(Clone, Debug, Default)]
pub struct Single {
    interval: Interval,
    guests: Over<GuestField>,
    tiers: Over<TierField>,
    added: Added,
    on: f64,
}

impl Single {
    /// Computes the sums of the interval. `on` is the number of guests, if there are more guests
    /// than the interval contains.
    pub fn new(interval: Interval, on: Option<usize>) -> Single {
        let covered_ms = interval.host.covered_ms;
        let guests = together(interval.guests.values(), covered_ms);
        let tiers = together(interval.tiers.values(), covered_ms);
        let each = interval.guests.values().map(Added::of);
        let added = each.reduce(|one, other| one.plus(&other)).unwrap_or_default();
        let on = on.unwrap_or(interval.guests.len()) as f64;
        Single { interval, guests, tiers, added, on }
    }

    /// Returns the interval.
    pub fn interval(&self) -> &Interval {
        &self.interval
    }

    /// Returns the end of the covered time, in milliseconds since 1970.
    pub fn to_ms(&self) -> i64 {
        end_of(&self.interval)
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            host: &self.interval.host,
            guest: &self.guests,
            tier: &self.tiers,
            added: &self.added,
            on: Some(self.on),
            ..Facts::default()
        }
    }

    /// Returns a field of the host.
    pub fn host(&self, id: &str) -> Option<f64> {
        field(Scope::Host, id)?.value(&self.facts())
    }

    /// Returns a field of the sum of all guests.
    pub fn all_guests(&self, id: &str) -> Option<f64> {
        field(Scope::Guest, id)?.value(&self.facts())
    }

    /// Returns a field of a guest of the interval.
    pub fn guest(&self, guest: &Over<GuestField>, id: &str) -> Option<f64> {
        field(Scope::Guest, id)?.value(&Facts { guest, added: &Added::of(guest), ..self.facts() })
    }

    /// Returns a field of a tier of memory.
    pub fn tier(&self, tier: &Over<TierField>, id: &str) -> Option<f64> {
        field(Scope::Tier, id)?.value(&Facts { tier, ..self.facts() })
    }

    /// Returns a field of a process in a guest with the given CPU facts.
    pub fn process(
        &self,
        guest: &Over<GuestField>,
        process: &Over<ProcessField>,
        id: &str,
    ) -> Option<f64> {
        let added = Added::of(guest);
        // A process has a covered time of its own, which may differ from its guest's covered time.
        let guest = Over { covered_ms: process.covered_ms, ..Over::default() };
        let facts = Facts { guest: &guest, process, added: &added, ..self.facts() };
        field(Scope::Process, id)?.value(&facts)
    }
}

/// Sums the fields of all subjects; gauges are summed like counters.
fn together<'a, F: Field>(all: impl Iterator<Item = &'a Over<F>>, covered_ms: u64) -> Over<F> {
    let mut sum = Over::default();
    all.for_each(|one| sum.add_concurrent(one));
    Over { covered_ms, ..sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{GuestIdentity, HostField, Row};

    fn over<F: Field>(values: &[(F, u64)]) -> Over<F> {
        let mut row = Row::default();
        values.iter().for_each(|(field, value)| row.set(*field, Some(*value)));
        Over { covered_ms: 1_000, row }
    }

    #[test]
    fn a_guests_share_is_its_own_and_the_hosts_is_of_all() {
        let who = |name: &str| GuestIdentity { name: name.into(), ..GuestIdentity::default() };
        let second = |ns: u64| over(&[(GuestField::VcpuRun, ns), (GuestField::OtherRun, 0)]);
        let interval = Interval {
            length_ms: 1_000,
            host: over(&[(HostField::Cpus, 2)]),
            guests: [(who("a"), second(100_000_000)), (who("b"), second(300_000_000))].into(),
            ..Interval::default()
        };
        let single = Single::new(interval, Some(3));
        let of = |name: &str| single.guest(&single.interval().guests[&who(name)], "cpu_percent");
        assert_eq!((of("a"), of("b")), (Some(10.0), Some(30.0)));
        assert_eq!(single.all_guests("cpu_percent"), Some(40.0));
        assert_eq!(single.host("guests_on"), Some(3.0));
        assert_eq!(single.host("total_mib"), None);
        assert_eq!(single.to_ms(), 1_000);
    }
}
