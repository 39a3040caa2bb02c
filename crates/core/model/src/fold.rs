//! Summation of moments to minutes.
//!
//! The span between two moments belongs to the minute of the later moment. A span is never split,
//! so that a counter's growth and the time of that growth are in the same minute. A guest left out
//! of a moment is asleep: nothing happens in the guest until its next report. If a minute ends
//! during the sleep, the minute gets its part of the time asleep.

use crate::field::Field;
use crate::fields::{GuestField, HostField, ProcessField, TierField};
use crate::identity::{GuestIdentity, ProcessName};
use crate::moment::{Interval, Moment, Over};
use crate::row::Row;
use base::duration::MINUTE_MS;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Time between two moments above which there is a gap. A shorter delay loses no data, because the
/// counters include the events during the delay. Only the times are less exact.
pub const GAP_MS: i64 = 10_000;
/// Time without a report after which a guest or a tier counts as gone. Guests and tiers are
/// reported at least once a minute.
const GONE_MS: i64 = 75_000;
/// Maximum time between two reports of a process. Use over a longer time is not counted. Most
/// processes are reported about once a minute.
const STALE_MS: i64 = 900_000;
/// Maximum time for which a small use by a process is postponed to a later row. A hundred idle
/// guests have two thousand processes with a small use. A row a minute for each of these processes
/// would take twice as much space as all other rows.
const LATER_MS: i64 = 600_000;
/// CPU time below which a use is small: a sixty-thousandth of a CPU over a minute.
const LITTLE_NS: u64 = 1_000_000;
/// Number of dispatches below which a use is small: one a second over a minute.
const FEW_DISPATCHES: u64 = 60;

/// A time without data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Start in milliseconds since 1970.
    pub from_ms: i64,
    /// End in milliseconds since 1970.
    pub to_ms: i64,
    /// Reason: `restart`, `late`, or `lost` for data that could not be written.
    pub reason: String,
}

/// Result of adding a moment.
#[derive(Debug, Default)]
pub struct Fed {
    /// Minute that has ended.
    pub finished: Option<Interval>,
    /// Start and end of the gap that this moment ends.
    pub gap: Option<(i64, i64)>,
    /// True if the moment is not later than the previous moment, and was left out.
    pub is_ignored: bool,
}

/// Last row of a subject, the time of its report, and the time up to which the subject is counted.
#[derive(Clone, Debug)]
struct LastSeen<F> {
    reported_ms: i64,
    at_ms: i64,
    row: Row<F>,
}

impl<F: Field> LastSeen<F> {
    fn new(at_ms: i64, row: &Row<F>) -> LastSeen<F> {
        LastSeen { reported_ms: at_ms, at_ms, row: row.clone() }
    }
}

type All<K, F> = BTreeMap<K, LastSeen<F>>;

/// Summation of moments to minutes.
#[derive(Debug, Default)]
pub struct Folder {
    last_ms: Option<i64>,
    host: Row<HostField>,
    guests: All<GuestIdentity, GuestField>,
    tiers: All<String, TierField>,
    processes: BTreeMap<GuestIdentity, All<ProcessName, ProcessField>>,
    now: Option<Interval>,
    /// Distance between moments, if it is longer than usual.
    spacing_ms: i64,
}

/// Returns the start of the minute that contains the end of a span.
pub fn minute_of(at_ms: i64) -> i64 {
    at_ms.saturating_sub(1).div_euclid(MINUTE_MS) * MINUTE_MS
}

impl Folder {
    /// Creates a folder for moments at a given distance, such as samples from slow scrapes.
    pub fn spaced(spacing_ms: i64) -> Folder {
        Folder { spacing_ms, ..Folder::default() }
    }

    /// Sets the distance between moments from now on.
    pub fn space(&mut self, spacing_ms: i64) {
        self.spacing_ms = spacing_ms;
    }

    /// Returns the distance above which there is a gap. If moments are far apart anyway, a single
    /// missing moment is not a gap.
    fn gap_ms(&self) -> i64 {
        GAP_MS.max(self.spacing_ms.saturating_mul(5) / 2)
    }

    fn gone_ms(&self) -> i64 {
        GONE_MS.max(self.gap_ms())
    }

    /// Returns the time of the last moment counted.
    pub fn last_ms(&self) -> Option<i64> {
        self.last_ms
    }

    /// Adds a moment.
    pub fn feed(&mut self, moment: &Moment) -> Fed {
        let at_ms = moment.at_ms;
        let Some(last_ms) = self.last_ms else {
            self.know(moment);
            return Fed::default();
        };
        let span_ms = at_ms.saturating_sub(last_ms);
        let (gap_ms, gone_ms) = (self.gap_ms(), self.gone_ms());
        // After a small step back of the clock, moments are ignored until the clock reaches its
        // earlier time again. After a larger step, counting restarts and replaces the earlier data
        // of that time.
        if (-GAP_MS..=0).contains(&span_ms) {
            return Fed { is_ignored: true, ..Fed::default() };
        }
        let minute = minute_of(at_ms);
        let finished = match &self.now {
            Some(now) if now.from_ms != minute => self.finish(last_ms),
            _ => None,
        };
        if !(0..=gap_ms).contains(&span_ms) {
            self.guests.clear();
            self.tiers.clear();
            self.processes.clear();
            self.know(moment);
            let gap = (span_ms > 0).then_some((last_ms, at_ms));
            return Fed { finished, gap, is_ignored: false };
        }
        let now = self.now.get_or_insert_with(|| Interval {
            from_ms: minute,
            length_ms: MINUTE_MS.unsigned_abs(),
            ..Interval::default()
        });
        now.host.add(&Over::between(&self.host, &moment.host, span_ms.unsigned_abs()));
        self.host.clone_from(&moment.host);
        self.last_ms = Some(at_ms);
        take_names(&mut self.guests, &mut self.processes, moment);
        add_all(&mut self.guests, &mut now.guests, &moment.guests, at_ms, gone_ms);
        add_all(&mut self.tiers, &mut now.tiers, &moment.tiers, at_ms, gone_ms);
        for (who, processes) in &moment.processes {
            if !self.processes.contains_key(who) {
                self.processes.insert(who.clone(), BTreeMap::new());
                now.processes.insert(who.clone(), BTreeMap::new());
            }
            let sum = now.processes.entry(who.clone()).or_default();
            if let Some(seen) = self.processes.get_mut(who) {
                add_processes(seen, sum, processes, at_ms);
            }
        }
        Fed { finished, ..Fed::default() }
    }

    /// Takes a moment as the last known state, without counting anything.
    pub fn know(&mut self, moment: &Moment) {
        let at_ms = moment.at_ms;
        self.last_ms = Some(at_ms);
        self.host.clone_from(&moment.host);
        know_all(&mut self.guests, &moment.guests, at_ms);
        know_all(&mut self.tiers, &moment.tiers, at_ms);
        for (who, processes) in &moment.processes {
            know_all(self.processes.entry(who.clone()).or_default(), processes, at_ms);
        }
    }

    /// Returns the state as moments, in the order in which to pass them to `know`. Each moment
    /// contains the rows that were last reported at its time.
    pub fn known(&self) -> Vec<Moment> {
        let mut at: BTreeMap<i64, Moment> = BTreeMap::new();
        let Some(last_ms) = self.last_ms else { return Vec::new() };
        at.entry(last_ms).or_default();
        for (who, seen) in &self.guests {
            let moment = at.entry(seen.at_ms).or_default();
            moment.guests.insert(who.clone(), seen.row.clone());
        }
        for (name, seen) in &self.tiers {
            at.entry(seen.at_ms).or_default().tiers.insert(name.clone(), seen.row.clone());
        }
        for (who, all) in &self.processes {
            for (name, seen) in all {
                let moment = at.entry(seen.at_ms).or_default();
                let processes = moment.processes.entry(who.clone()).or_default();
                processes.insert(name.clone(), seen.row.clone());
            }
        }
        for (at_ms, moment) in &mut at {
            moment.at_ms = *at_ms;
            moment.host.clone_from(&self.host);
        }
        at.into_values().collect()
    }

    /// Returns the current minute as far as it is summed.
    pub fn running(&self) -> Option<&Interval> {
        self.now.as_ref()
    }

    /// Ends the current minute at the last moment.
    pub fn end(mut self) -> Option<Interval> {
        let last_ms = self.last_ms?;
        self.finish(last_ms)
    }

    fn finish(&mut self, last_ms: i64) -> Option<Interval> {
        let mut now = self.now.take()?;
        let (gap_ms, gone_ms) = (self.gap_ms(), self.gone_ms());
        let asleep_ms = gap_ms..=gone_ms;
        sleep_all(&mut self.guests, &mut now.guests, last_ms, &asleep_ms);
        sleep_all(&mut self.tiers, &mut now.tiers, last_ms, &asleep_ms);
        for all in self.processes.values_mut() {
            all.retain(|_, seen| last_ms.saturating_sub(seen.at_ms) <= STALE_MS);
        }
        self.processes.retain(|_, all| !all.is_empty());
        now.processes.retain(|_, all| !all.is_empty());
        Some(now)
    }
}

fn add<F: Field, K: Ord + Clone>(sum: &mut BTreeMap<K, Over<F>>, key: &K, over: Over<F>) {
    match sum.get_mut(key) {
        Some(sum) => sum.add(&over),
        None => {
            sum.insert(key.clone(), over);
        }
    }
}

/// Moves the state of a guest to a new identity of the same process. The identity changes if the
/// guest reboots, or if its boot id becomes known. Without the move, the old identity would count
/// as another, sleeping guest.
fn take_names(
    guests: &mut All<GuestIdentity, GuestField>,
    processes: &mut BTreeMap<GuestIdentity, All<ProcessName, ProcessField>>,
    moment: &Moment,
) {
    for who in moment.guests.keys() {
        if guests.contains_key(who) || who.pid.is_none() {
            continue;
        }
        let old =
            guests.keys().find(|old| old.is_same_process(who) && !moment.guests.contains_key(old));
        let Some(old) = old.cloned() else { continue };
        if let Some(seen) = guests.remove(&old) {
            guests.insert(who.clone(), seen);
        }
        // After a reboot the process ids belong to other processes.
        if let Some(seen) = processes.remove(&old).filter(|_| old.boot.is_empty()) {
            processes.insert(who.clone(), seen);
        }
    }
}

fn know_all<F: Field, K: Ord + Clone>(
    seen: &mut All<K, F>,
    rows: &BTreeMap<K, Row<F>>,
    at_ms: i64,
) {
    for (key, row) in rows {
        seen.insert(key.clone(), LastSeen::new(at_ms, row));
    }
}

fn add_all<F: Field, K: Ord + Clone>(
    seen: &mut All<K, F>,
    sum: &mut BTreeMap<K, Over<F>>,
    rows: &BTreeMap<K, Row<F>>,
    at_ms: i64,
    most_ms: i64,
) {
    for (key, row) in rows {
        let Some(before) = seen.get_mut(key) else {
            seen.insert(key.clone(), LastSeen::new(at_ms, row));
            continue;
        };
        let span_ms = at_ms.saturating_sub(before.at_ms);
        if (0..=most_ms).contains(&span_ms) {
            let over = Over::between(&before.row, row, span_ms.unsigned_abs());
            add(sum, key, over);
        }
        (before.reported_ms, before.at_ms) = (at_ms, at_ms);
        before.row.clone_from(row);
    }
}

fn add_processes(
    seen: &mut All<ProcessName, ProcessField>,
    sum: &mut BTreeMap<ProcessName, Over<ProcessField>>,
    rows: &BTreeMap<ProcessName, Row<ProcessField>>,
    at_ms: i64,
) {
    for (name, row) in rows {
        let Some(before) = seen.get_mut(name) else {
            seen.insert(name.clone(), LastSeen::new(at_ms, row));
            continue;
        };
        let span_ms = at_ms.saturating_sub(before.at_ms);
        if (0..=STALE_MS).contains(&span_ms) {
            let over = Over::between(&before.row, row, span_ms.unsigned_abs());
            if span_ms < LATER_MS && is_next_to_nothing(&over) {
                continue;
            }
            add(sum, name, over);
        }
        *before = LastSeen::new(at_ms, row);
    }
}

fn is_next_to_nothing(over: &Over<ProcessField>) -> bool {
    use ProcessField::{ChildSystem, ChildUser, Dispatches, MajorFaults, Run, System, User};
    let grown = |field| over.get(field).unwrap_or(0);
    // `Run` and the sum of `User` and `System` measure the same time.
    let used = grown(Run).max(grown(User).saturating_add(grown(System)));
    let all = used.saturating_add(grown(ChildUser)).saturating_add(grown(ChildSystem));
    all < LITTLE_NS && grown(Dispatches) < FEW_DISPATCHES && grown(MajorFaults) == 0
}

/// Counts the time of every sleeping subject up to a minute's last moment, and removes subjects
/// that are gone.
fn sleep_all<F: Field, K: Ord + Clone>(
    seen: &mut All<K, F>,
    sum: &mut BTreeMap<K, Over<F>>,
    last_ms: i64,
    asleep_ms: &RangeInclusive<i64>,
) {
    seen.retain(|key, seen| {
        if last_ms.saturating_sub(seen.reported_ms) > *asleep_ms.end() {
            return false;
        }
        // A subject reported just before is awake, and is counted with the next moment.
        let slept_ms = last_ms.saturating_sub(seen.at_ms);
        if slept_ms > *asleep_ms.start() {
            add(sum, key, Over::between(&seen.row, &seen.row, slept_ms.unsigned_abs()));
            seen.at_ms = last_ms;
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_whose_boot_becomes_known_is_counted_once() {
        let who = |boot: &str| GuestIdentity {
            name: "g".into(),
            pid: Some(7),
            start_ticks: Some(9),
            boot: boot.into(),
            ..GuestIdentity::default()
        };
        let mut folder = Folder::default();
        for second in 0..70_u64 {
            let mut row = Row::default();
            row.set(GuestField::VcpuRun, Some(second));
            let boot = ["", "b1", "b2"][usize::from(second > 20) + usize::from(second > 40)];
            let at_ms = i64::try_from(second).unwrap_or(0) * 1000;
            let guests = [(who(boot), row)].into();
            let fed = folder.feed(&Moment { at_ms, guests, ..Moment::default() });
            let Some(minute) = fed.finished else { continue };
            let of = |boot: &str| {
                let over = minute.guests.get(&who(boot))?;
                Some((over.covered_ms, over.get(GuestField::VcpuRun)?))
            };
            assert_eq!(of(""), Some((20_000, 20)));
            assert_eq!((of("b1"), of("b2")), (Some((20_000, 20)), Some((20_000, 20))));
            return;
        }
        panic!("no minute was finished");
    }
}
