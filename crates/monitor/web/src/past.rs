//! Recorded data by interval and guest.

use crate::fault::Fault;
use crate::source::Source;
use crate::span::Span;
use crate::who::find;
use model::{Gap, GuestField, Over, ProcessField, ProcessName};
use reports::recorded::Wanted;
use reports::{HostData, Needs, Raw, Scope, Single, field};
use std::collections::BTreeMap;

/// Fields of a guest that are always calculated: its CPU time and the states of its vCPUs.
fn always() -> Vec<GuestField> {
    reports::needs(&[]).guests
}

/// Returns the raw fields from which derived fields of guests and of the host are calculated.
pub(crate) fn raw_guest_fields(guest: &[&str], host: &[&str]) -> Vec<GuestField> {
    let of = |scope: Scope, id: &str| field(scope, id).map_or(&[][..], |field| field.sources);
    let sources = guest
        .iter()
        .flat_map(|id| of(Scope::Guest, id))
        .chain(host.iter().flat_map(|id| of(Scope::Host, id)));
    let mut fields = always();
    fields.extend(sources.filter_map(|raw| match raw {
        Raw::Guest(field) => Some(*field),
        _ => None,
    }));
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// Returns the raw fields from which derived fields of processes are calculated.
pub(crate) fn raw_process_fields(ids: &[&str]) -> Vec<ProcessField> {
    let sources =
        ids.iter().flat_map(|id| field(Scope::Process, id).map_or(&[][..], |field| field.sources));
    let mut fields: Vec<ProcessField> = sources
        .filter_map(|raw| match raw {
            Raw::Process(field) => Some(*field),
            _ => None,
        })
        .collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// Recorded intervals of a guest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) uuid: String,
    /// Data by interval; `None` if the guest has no data in the interval.
    pub(crate) steps: Vec<Option<Over<GuestField>>>,
    /// Sum over all intervals.
    pub(crate) whole: Over<GuestField>,
    /// Processes of the guest, over the whole time.
    pub(crate) processes: BTreeMap<ProcessName, Over<ProcessField>>,
}

/// A host's recordings of a time range.
#[derive(Debug, Default)]
pub(crate) struct PastHost {
    pub(crate) name: String,
    pub(crate) steps: Vec<Single>,
    /// Sum over the whole time.
    pub(crate) whole: Single,
    pub(crate) guests: Vec<Track>,
    pub(crate) gaps: Vec<Gap>,
}

/// Reads the recordings of a time range, with the given raw fields.
pub(crate) fn read(
    source: &dyn Source,
    span: &Span,
    guests: Vec<GuestField>,
    processes: Vec<ProcessField>,
) -> Result<Vec<PastHost>, Fault> {
    let Span { from_ms, to_ms, step_ms, .. } = *span;
    let wanted = Wanted { from_ms, to_ms, step_ms, needs: Needs { guests, processes } };
    let hosts = source.recorded(span.host.as_deref(), &wanted)?;
    Ok(hosts.into_iter().map(PastHost::of).collect())
}

impl PastHost {
    fn of(data: HostData) -> PastHost {
        let HostData { name, intervals, gaps, .. } = data;
        let length = intervals.len();
        let mut guests: BTreeMap<(String, String), Track> = BTreeMap::new();
        let mut whole = model::Interval::default();
        for (at, interval) in intervals.iter().enumerate() {
            for (who, over) in &interval.guests {
                let track =
                    guests.entry((who.name.clone(), who.uuid.clone())).or_insert_with(|| Track {
                        name: who.name.clone(),
                        uuid: who.uuid.clone(),
                        steps: vec![None; length],
                        ..Track::default()
                    });
                track.class.clone_from(&who.class);
                match &mut track.steps[at] {
                    // A guest that was restarted within the interval has several entries.
                    Some(known) => known.add(over),
                    none => *none = Some(over.clone()),
                }
                track.whole.add(over);
            }
            whole.add(interval);
        }
        // A guest's processes may be recorded in an earlier interval than the guest itself.
        for interval in &intervals {
            for (who, processes) in &interval.processes {
                let Some(track) = guests.get_mut(&(who.name.clone(), who.uuid.clone())) else {
                    continue;
                };
                for (name, over) in processes {
                    track.processes.entry(name.clone()).or_default().add(over);
                }
            }
        }
        PastHost {
            name,
            steps: intervals.into_iter().map(|interval| Single::new(interval, None)).collect(),
            whole: Single::new(whole, None),
            guests: guests.into_values().collect(),
            gaps,
        }
    }

    pub(crate) fn spans(&self) -> Vec<(i64, u64)> {
        let span = |one: &Single| (one.interval().from_ms, one.interval().length_ms);
        self.steps.iter().map(span).collect()
    }

    /// Returns a field of the host over time.
    pub(crate) fn host_series(&self, id: &str) -> Vec<Option<f64>> {
        self.steps.iter().map(|one| one.host(id)).collect()
    }

    /// Returns a field of a guest over time.
    pub(crate) fn guest_series(&self, track: &Track, id: &str) -> Vec<Option<f64>> {
        let value =
            |(one, over): (&Single, &Option<Over<GuestField>>)| one.guest(over.as_ref()?, id);
        self.steps.iter().zip(&track.steps).map(value).collect()
    }

    /// Returns a guest by its name or its UUID. If several guests have this name, returns the
    /// first.
    pub(crate) fn guest(&self, key: &str) -> Option<&Track> {
        find(&self.guests, key, |one| (&one.name, &one.uuid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{GuestIdentity, Interval};

    #[test]
    fn a_guest_of_a_later_interval_has_its_processes() {
        let who = GuestIdentity { name: "late".into(), ..GuestIdentity::default() };
        let mut data = HostData::default();
        data.add(Interval { length_ms: 60_000, ..Interval::default() });
        data.add(Interval {
            from_ms: 60_000,
            length_ms: 60_000,
            guests: [(who.clone(), Over::default())].into(),
            processes: [(who, [(ProcessName::default(), Over::default())].into())].into(),
            ..Interval::default()
        });
        // All processes are in the first interval, and the guest is only in the second.
        assert!(data.intervals[0].guests.is_empty() && !data.intervals[0].processes.is_empty());
        let host = PastHost::of(data);
        assert_eq!(host.guest("late").map(|track| track.processes.len()), Some(1));
    }
}
