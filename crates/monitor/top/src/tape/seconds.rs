//! Intervals of less than a minute, computed from the raw samples.

use crate::Error;
use model::{
    GuestField, GuestIdentity, HostField, Interval, Moment, Over, ProcessField, ProcessName, Row,
    TierField,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use store::Records;

/// Time without a sample after which a guest counts as gone. An idle guest is sampled every 15 s.
const GONE_MS: i64 = 60_000;
/// Length of time that contains two reports of processes. Daemons send one report a minute.
const LOOK_BACK_MS: i64 = 150_000;

/// Returns the interval at a position, and the intervals from `before_ms` up to it.
pub(super) fn read(
    records: &Records,
    before_ms: i64,
    from_ms: i64,
    length_ms: i64,
) -> Result<(Interval, Vec<Interval>), Error> {
    let to_ms = from_ms.saturating_add(length_ms);
    let mut state = State::default();
    let mut begin: Option<State> = None;
    let mut history = Vec::new();
    let mut last: Option<State> = None;
    let mut end_ms = before_ms;
    let begin_ms = before_ms.min(from_ms - LOOK_BACK_MS);
    // The sample at the end of an interval is the interval's last sample.
    records.raw(begin_ms, to_ms + 1, |moment| {
        while moment.at_ms > end_ms {
            push_since(&mut history, &mut last, &state);
            end_ms += length_ms;
        }
        if moment.at_ms > from_ms && begin.is_none() {
            begin = Some(state.clone());
        }
        state.take(moment);
        ControlFlow::Continue(())
    })?;
    push_since(&mut history, &mut last, &state);
    let nothing = Interval { from_ms, length_ms: length_ms.unsigned_abs(), ..Interval::default() };
    let shown = begin.and_then(|begin| state.since(&begin)).unwrap_or(nothing);
    Ok((shown, history))
}

/// Adds an interval to the past, if there are new data.
fn push_since(history: &mut Vec<Interval>, last: &mut Option<State>, state: &State) {
    let at_ms = |state: &State| state.host.as_ref().map(|(at_ms, _)| *at_ms);
    if at_ms(state).is_none() || last.as_ref().and_then(at_ms) == at_ms(state) {
        return;
    }
    let now = State { host: state.host.clone(), guests: state.guests.clone(), ..State::default() };
    if let Some(before) = last.replace(now) {
        history.extend(state.since_without_processes(&before));
    }
}

/// A report of a guest's processes, with its time.
type Report = (i64, BTreeMap<ProcessName, Row<ProcessField>>);

#[derive(Clone, Debug, Default)]
struct State {
    host: Option<(i64, Row<HostField>)>,
    guests: BTreeMap<GuestIdentity, (i64, Row<GuestField>)>,
    tiers: BTreeMap<String, Row<TierField>>,
    /// The last two reports of each guest's processes.
    reports: BTreeMap<GuestIdentity, (Option<Report>, Report)>,
}

impl State {
    fn take(&mut self, moment: Moment) {
        let at_ms = moment.at_ms;
        self.host = Some((at_ms, moment.host));
        self.tiers = moment.tiers;
        self.guests.extend(moment.guests.into_iter().map(|(who, row)| (who, (at_ms, row))));
        for (who, processes) in moment.processes {
            let before = self.reports.remove(&who).map(|(_, last)| last);
            self.reports.insert(who, (before, (at_ms, processes)));
        }
    }

    /// Returns the interval since an earlier state.
    fn since(&self, begin: &State) -> Option<Interval> {
        let interval = self.since_without_processes(begin)?;
        let processes = self
            .reports
            .iter()
            .filter(|(who, _)| interval.guests.contains_key(who))
            .filter_map(|(who, (before, last))| Some((who.clone(), grown(before.as_ref()?, last))))
            .collect();
        Some(Interval { processes, ..interval })
    }

    fn since_without_processes(&self, begin: &State) -> Option<Interval> {
        let ((from_ms, before), (to_ms, now)) = (begin.host.as_ref()?, self.host.as_ref()?);
        let length_ms = to_ms.abs_diff(*from_ms);
        let guest = |(who, (seen_ms, row)): (&GuestIdentity, &(i64, Row<GuestField>))| {
            let (_, before) = begin.guests.get(who)?;
            let is_there = to_ms - seen_ms <= GONE_MS;
            is_there.then(|| (who.clone(), Over::between(before, row, length_ms)))
        };
        let tier = |(name, row): (&String, &Row<TierField>)| {
            Some((name.clone(), Over::between(begin.tiers.get(name)?, row, length_ms)))
        };
        Some(Interval {
            from_ms: *from_ms,
            length_ms,
            host: Over::between(before, now, length_ms),
            guests: self.guests.iter().filter_map(guest).collect(),
            tiers: self.tiers.iter().filter_map(tier).collect(),
            ..Interval::default()
        })
    }
}

fn grown(before: &Report, last: &Report) -> BTreeMap<ProcessName, Over<ProcessField>> {
    let length_ms = last.0.abs_diff(before.0);
    let both = |(name, row): (&ProcessName, &Row<ProcessField>)| {
        Some((name.clone(), Over::between(before.1.get(name)?, row, length_ms)))
    };
    last.1.iter().filter_map(both).collect()
}
