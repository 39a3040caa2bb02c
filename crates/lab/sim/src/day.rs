//! A day of many guests, made from recorded minutes of a few real guests.
//!
//! ```text
//!   moments of a few guests ─► Lines, one each ─► Day ──(the time)──► moment of a hundred guests
//! ```
//!
//! Each guest of the day follows a recorded guest, and starts at its own position in the recording.
//! The counters of both guests grow by the same amounts, and their gauges are equal. The guest of
//! the day has no rows while the recorded guest was idle. The recording starts over at its end. In
//! the hours of its class, a guest follows one of all recorded guests. At other times it follows
//! one of the idlest. The numbers therefore vary like a real kernel's, which no formula achieves.

use model::ProcessField;
use model::{
    Field, GuestField as G, GuestIdentity, HostField as H, Kind, Moment, ProcessName, Row,
    TierField as T,
};
use std::collections::BTreeMap;

const HOUR_MS: i64 = 3_600_000;
/// One guest in this many works all day.
const ALWAYS: usize = 10;
/// One recorded guest in this many is among the idlest, which guests follow outside their hours.
const SLEEPERS: usize = 3;
/// Working hours of the classes: the first hour, and the hour after the last. A guest begins up to
/// two hours later than its class.
const HOURS: [(i64, i64); 3] = [(8, 17), (1, 5), (18, 22)];

/// Returns the growth of a counter. A counter that started over grew from 0.
fn grown<F: Field>(field: F, before: &Row<F>, now: &Row<F>) -> u64 {
    let Some(now) = now.get(field) else { return 0 };
    before.get(field).map_or(0, |before| now.checked_sub(before).unwrap_or(now))
}

/// Adds the growth of the other row's counters to a row, and copies the other row's gauges. A
/// counter that was unknown starts with the other row's value.
fn follow<F: Field>(row: &mut Row<F>, before: &Row<F>, now: &Row<F>) {
    for field in F::ALL {
        let value = match (field.kind(), row.get(*field), now.get(*field)) {
            (_, _, None) => None,
            (Kind::Counter, Some(own), _) => Some(own + grown(*field, before, now)),
            (Kind::Counter, None, value) | (Kind::Gauge, _, value) => value,
        };
        row.set(*field, value);
    }
}

/// The recorded rows of a guest, a tier or the host, with their times since the beginning of the
/// recording.
type Line<T> = Vec<(i64, T)>;

/// Returns the number of rows up to this time.
fn until<T>(line: &[(i64, T)], at_ms: i64) -> usize {
    line.partition_point(|(offset_ms, _)| *offset_ms <= at_ms)
}

/// Grows a row by the rows after `from_ms` and up to `to_ms`. If `from_ms` is the later time, the
/// recording has started over. Then the rows after `from_ms` and the rows up to `to_ms` both count.
/// Returns true if there were rows.
fn follow_line<F: Field>(line: &Line<Row<F>>, row: &mut Row<F>, from_ms: i64, to_ms: i64) -> bool {
    let parts = match from_ms <= to_ms {
        true => [(until(line, from_ms), until(line, to_ms)), (0, 0)],
        false => [(until(line, from_ms), line.len()), (0, until(line, to_ms))],
    };
    let mut is_reported = false;
    for (first, next) in parts {
        is_reported |= first < next;
        // The very first row has no row before it to grow from.
        if first.max(1) < next {
            follow(row, &line[first.max(1) - 1].1, &line[next - 1].1);
        }
    }
    is_reported
}

#[derive(Debug)]
struct Recorded {
    class: String,
    line: Line<Row<G>>,
    processes: Line<BTreeMap<ProcessName, Row<ProcessField>>>,
}

#[derive(Debug)]
struct Guest {
    who: GuestIdentity,
    /// Indices of the recorded guests to follow in the working hours, and at other times.
    working: usize,
    sleeping: usize,
    /// Working hours: the hours of the guest's class, delayed by up to two hours; `None` if the
    /// guest always works.
    hours: Option<(i64, i64)>,
    shift_ms: i64,
    follows: Option<usize>,
    row: Row<G>,
    processes: BTreeMap<ProcessName, Row<ProcessField>>,
    /// Last rows of the processes in the recorded guest that this guest follows.
    last_followed: BTreeMap<ProcessName, Row<ProcessField>>,
}

/// A host with many guests.
#[derive(Debug)]
pub struct Day {
    length_ms: i64,
    recorded: Vec<Recorded>,
    host_line: Line<Row<H>>,
    tier_lines: BTreeMap<String, Line<Row<T>>>,
    guests: Vec<Guest>,
    host: Row<H>,
    tiers: BTreeMap<String, Row<T>>,
    begin_ms: i64,
    last_ms: i64,
}

impl Day {
    /// Creates a host with this many guests that follow a recording, from this time on. The moments
    /// must be in order and without a gap. Returns `None` if there are too few guests to follow.
    pub fn new(moments: &[Moment], guests: usize, at_ms: i64) -> Option<Day> {
        let (first, last) = (moments.first()?, moments.last()?);
        let length_ms = last.at_ms - first.at_ms;
        let mut lines: BTreeMap<&GuestIdentity, Recorded> = BTreeMap::new();
        let mut host_line = Vec::new();
        let mut tier_lines: BTreeMap<String, Line<Row<T>>> = BTreeMap::new();
        for moment in moments {
            let offset_ms = moment.at_ms - first.at_ms;
            host_line.push((offset_ms, moment.host.clone()));
            for (name, row) in &moment.tiers {
                tier_lines.entry(name.clone()).or_default().push((offset_ms, row.clone()));
            }
            for (who, row) in &moment.guests {
                let class = who.class.clone();
                let recorded = lines.entry(who).or_insert_with(|| Recorded {
                    class,
                    line: Vec::new(),
                    processes: Vec::new(),
                });
                recorded.line.push((offset_ms, row.clone()));
            }
            for (who, processes) in &moment.processes {
                if let Some(recorded) = lines.get_mut(who) {
                    recorded.processes.push((offset_ms, processes.clone()));
                }
            }
        }
        // A guest that came later, left, or changed its identity cannot be followed.
        let is_there = |one: &Recorded| {
            let ends = one.line.first().zip(one.line.last());
            ends.is_some_and(|((from_ms, _), (to_ms, _))| to_ms - from_ms > length_ms * 9 / 10)
        };
        let recorded: Vec<Recorded> = lines.into_values().filter(is_there).collect();
        let worked = |one: &Recorded| {
            let (first, last) = (one.line.first()?, one.line.last()?);
            Some(grown(G::VcpuRun, &first.1, &last.1))
        };
        let mut by_work: Vec<usize> = (0..recorded.len()).collect();
        by_work.sort_by_key(|index| worked(&recorded[*index]));
        let sleepers = recorded.len() / SLEEPERS;
        if sleepers == 0 || length_ms <= 0 {
            return None;
        }
        let mut classes: Vec<&str> = recorded.iter().map(|one| one.class.as_str()).collect();
        classes.sort_unstable();
        classes.dedup();
        let guest = |number: usize| {
            let working = by_work[number % by_work.len()];
            let class = &recorded[working].class;
            let place = classes.iter().position(|name| name == class).unwrap_or(0);
            let (from, to) = HOURS[place % HOURS.len()];
            let later = (number / by_work.len() % 3) as i64;
            let is_always = number.is_multiple_of(ALWAYS);
            Guest {
                who: GuestIdentity {
                    uuid: format!("6b1f0000-0000-4000-8000-{number:012}"),
                    name: format!("lnx{number:03}"),
                    class: class.clone(),
                    pid: u32::try_from(2_000 + number).ok(),
                    start_ticks: Some(100_000 + 37 * number as u64),
                    boot: "1".into(),
                },
                working,
                sleeping: by_work[number % sleepers],
                hours: (!is_always).then_some((from + later, to + later)),
                // A factor with a large prime distributes the positions well.
                shift_ms: number as i64 * 7_919_000 % length_ms,
                follows: None,
                row: Row::default(),
                processes: BTreeMap::new(),
                last_followed: BTreeMap::new(),
            }
        };
        let guests = (0..guests).map(guest).collect();
        Some(Day {
            length_ms,
            guests,
            recorded,
            host: first.host.clone(),
            tiers: first.tiers.clone(),
            host_line,
            tier_lines,
            begin_ms: at_ms,
            last_ms: at_ms,
        })
    }

    /// Returns the number of recorded guests to follow.
    pub fn followed(&self) -> usize {
        self.recorded.len()
    }

    /// Returns the moment at a time, which must be later than the time of the previous call.
    pub fn at(&mut self, at_ms: i64) -> Moment {
        let place = |at_ms: i64, shift_ms: i64| {
            (at_ms - self.begin_ms + shift_ms).rem_euclid(self.length_ms)
        };
        let last_ms = self.last_ms;
        let hour = at_ms.div_euclid(HOUR_MS).rem_euclid(24);
        let mut moment = Moment { at_ms, ..Moment::default() };
        let mut all_run = 0;
        for guest in &mut self.guests {
            let (from_ms, to_ms) = (place(last_ms, guest.shift_ms), place(at_ms, guest.shift_ms));
            let works = guest.hours.is_none_or(|(from, to)| (from..to).contains(&hour));
            let follows = if works { guest.working } else { guest.sleeping };
            let recorded = &self.recorded[follows];
            let before = guest.row.clone();
            let is_reported = match guest.follows == Some(follows) {
                true => follow_line(&recorded.line, &mut guest.row, from_ms, to_ms),
                false => guest.begin(recorded, follows, to_ms),
            };
            all_run += grown(G::VcpuRun, &before, &guest.row);
            all_run += grown(G::OtherRun, &before, &guest.row);
            // A guest is also reported when the recording starts over.
            if is_reported || from_ms > to_ms {
                moment.guests.insert(guest.who.clone(), guest.row.clone());
            }
            let processes = guest.processes_between(recorded, from_ms, to_ms);
            if !processes.is_empty() {
                moment.processes.insert(guest.who.clone(), processes);
            }
        }
        let (from_ms, to_ms) = (place(last_ms, 0), place(at_ms, 0));
        follow_line(&self.host_line, &mut self.host, from_ms, to_ms);
        self.last_ms = at_ms;
        // Emulated guests run in user mode, so their CPU time counts as the host's user time.
        let user = self.host.get(H::User).map(|ns| ns + all_run);
        self.host.set(H::User, user);
        moment.host = self.host.clone();
        // The day's host is larger than the recorded host, in proportion to the number of guests.
        let times = self.guests.len().div_ceil(self.recorded.len().max(1)) as u64;
        for field in [H::Cpus, H::Total, H::Free, H::Available] {
            moment.host.set(field, self.host.get(field).map(|value| value * times));
        }
        moment.host.set(H::Guests, Some(self.guests.len() as u64));
        for (name, row) in &mut self.tiers {
            if self.tier_lines.get(name).is_some_and(|line| follow_line(line, row, from_ms, to_ms))
            {
                moment.tiers.insert(name.clone(), row.clone());
            }
        }
        moment
    }
}

impl Guest {
    /// Begins to follow another recorded guest. The counters continue from their present values.
    fn begin(&mut self, recorded: &Recorded, follows: usize, at_ms: i64) -> bool {
        self.follows = Some(follows);
        self.last_followed.clear();
        let place = until(&recorded.line, at_ms).max(1) - 1;
        let Some((_, row)) = recorded.line.get(place) else { return false };
        follow(&mut self.row, row, row);
        true
    }

    /// Returns the processes that were recorded in a span of time, with their newest rows.
    fn processes_between(
        &mut self,
        recorded: &Recorded,
        from_ms: i64,
        to_ms: i64,
    ) -> BTreeMap<ProcessName, Row<ProcessField>> {
        let has_started_over = from_ms > to_ms;
        if has_started_over {
            self.last_followed.clear();
        }
        let mut out = BTreeMap::new();
        let from_ms = if has_started_over { -1 } else { from_ms };
        let all = &recorded.processes;
        for (_, rows) in &all[until(all, from_ms)..until(all, to_ms)] {
            for (name, now) in rows {
                let own = self.processes.entry(name.clone()).or_insert_with(|| now.clone());
                follow(own, self.last_followed.get(name).unwrap_or(now), now);
                out.insert(name.clone(), own.clone());
                self.last_followed.insert(name.clone(), now.clone());
            }
        }
        out
    }
}

#[cfg(test)]
mod tests;
