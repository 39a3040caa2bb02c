//! Export of a range of recordings into other files, optionally with renamed guests.
//!
//! ```text
//!   rows of days and months, gaps ─┐
//!   samples of a second ───────────┼─► within a time ─► renamed ─► files of the same kinds
//!   passes, decisions, events ─────┘
//! ```
//!
//! An export has the format of a recording, and is read like any recording.

use super::calendar::Period;
use super::keep::periods;
use super::pack::{Encoder, block};
use super::passes::{self, PassRecorder};
use super::raw::{Block, RawFile, Seconds};
use super::rows::RowFile;
use super::scan::{Pick, Reading};
use crate::journal::{Decided, GuestKey, GuestRow, Journal, Query, Range};
use crate::{Error, Records};
use base::duration::MINUTE_MS;
use model::{GuestIdentity, Interval, Moment, PassGuest, PassInput, ProcessName, minute_of};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of guests in one query of a journal.
const GUESTS_MAX: usize = 10_000;
/// Maximum number of journal events exported, latest first.
const EVENTS_MAX: u32 = 1_000_000;

/// Pseudonyms for guests, their classes and their processes. The same name always gets the same
/// pseudonym.
#[derive(Debug, Default)]
pub struct Names {
    guests: BTreeMap<String, String>,
    uuids: BTreeMap<String, String>,
    classes: BTreeMap<String, String>,
    processes: BTreeMap<String, String>,
    boots: BTreeMap<String, String>,
}

/// Returns the pseudonym of a name. An empty name stays empty.
fn other(known: &mut BTreeMap<String, String>, name: &str, prefix: &str) -> String {
    if name.is_empty() {
        return String::new();
    }
    let number = known.len() + 1;
    known.entry(name.to_owned()).or_insert_with(|| format!("{prefix}{number}")).clone()
}

impl Names {
    fn guest(&mut self, who: &GuestIdentity) -> GuestIdentity {
        GuestIdentity {
            uuid: other(&mut self.uuids, &who.uuid, "uuid"),
            name: other(&mut self.guests, &who.name, "guest"),
            class: other(&mut self.classes, &who.class, "class"),
            boot: other(&mut self.boots, &who.boot, "boot"),
            pid: who.pid,
            start_ticks: who.start_ticks,
        }
    }

    fn process(&mut self, name: &ProcessName) -> ProcessName {
        ProcessName { name: other(&mut self.processes, &name.name, "process"), pid: name.pid }
    }
}

/// Time range of an export, and the pseudonyms.
#[derive(Debug)]
pub struct Travel {
    /// Start, in milliseconds since 1970.
    pub from_ms: i64,
    /// End, exclusive.
    pub to_ms: i64,
    /// Pseudonyms; `None` keeps the recorded names.
    pub names: Option<Names>,
}

/// Numbers of exported rows, samples, passes and decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Number of rows of minutes and of quarters of an hour.
    pub spans: u64,
    /// Number of raw samples.
    pub moments: u64,
    pub passes: u64,
    pub decisions: u64,
}

impl Travel {
    fn who(&mut self, who: &GuestIdentity) -> GuestIdentity {
        match &mut self.names {
            Some(names) => names.guest(who),
            None => who.clone(),
        }
    }

    fn keys<T>(&mut self, all: BTreeMap<GuestIdentity, T>) -> BTreeMap<GuestIdentity, T> {
        all.into_iter().map(|(who, value)| (self.who(&who), value)).collect()
    }

    fn processes<T>(
        &mut self,
        all: BTreeMap<GuestIdentity, BTreeMap<ProcessName, T>>,
    ) -> BTreeMap<GuestIdentity, BTreeMap<ProcessName, T>> {
        let renamed = |travel: &mut Travel, name: ProcessName| match &mut travel.names {
            Some(names) => names.process(&name),
            None => name,
        };
        all.into_iter()
            .map(|(who, of)| {
                let of = of.into_iter().map(|(name, value)| (renamed(self, name), value));
                let of: BTreeMap<ProcessName, T> = of.collect();
                (self.who(&who), of)
            })
            .collect()
    }

    /// Exports recordings into another directory, which must exist and be empty.
    pub fn records(&mut self, from: &Records, to: &Path) -> Result<Taken, Error> {
        let mut taken = Taken::default();
        for period in periods(from.dir())? {
            taken.spans += self.rows(from.dir(), to, period)?;
        }
        taken.moments = self.moments(from, to)?;
        taken.passes = self.passes(from.dir(), to)?;
        Ok(taken)
    }

    fn rows(&mut self, from: &Path, to: &Path, period: Period) -> Result<u64, Error> {
        if period.begin_ms() >= self.to_ms {
            return Ok(0);
        }
        if period.end_ms() <= self.from_ms {
            return self.earlier_gaps(from, to, period).map(|()| 0);
        }
        let Some(file) = RowFile::read_only(from, period)? else { return Ok(0) };
        let spans = file.spans(self.from_ms, self.to_ms)?;
        let gaps = match period {
            Period::Month(..) => file.gaps(self.from_ms, self.to_ms)?,
            Period::Day(..) => Vec::new(),
        };
        let length_ms = file.grain.length_ms();
        let mut reading = Reading::new(file, &Pick::from(model::Parts::ALL))?;
        let mut written = RowFile::open(to, period)?;
        let mut count = 0;
        let end_ms = self.to_ms;
        for at_ms in spans.into_iter().filter(|at_ms| at_ms + length_ms <= end_ms) {
            let mut span = Interval {
                from_ms: at_ms,
                length_ms: length_ms.unsigned_abs(),
                ..Interval::default()
            };
            reading.add(at_ms, at_ms + length_ms, &mut span)?;
            span.guests = self.keys(std::mem::take(&mut span.guests));
            span.processes = self.processes(std::mem::take(&mut span.processes));
            written.write(&span)?;
            count += 1;
        }
        written.add_gaps(&gaps)?;
        Ok(count)
    }

    /// Copies gaps that begin before the exported time and reach into that time. A gap is stored in
    /// the month of its start.
    fn earlier_gaps(&self, from: &Path, to: &Path, period: Period) -> Result<(), Error> {
        if matches!(period, Period::Day(..)) {
            return Ok(());
        }
        let Some(file) = RowFile::read_only(from, period)? else { return Ok(()) };
        let gaps = file.gaps(self.from_ms, self.to_ms)?;
        if !gaps.is_empty() {
            RowFile::open(to, period)?.add_gaps(&gaps)?;
        }
        Ok(())
    }

    fn moments(&mut self, from: &Records, to: &Path) -> Result<u64, Error> {
        let mut file: Option<RawFile> = None;
        let (mut minute, mut count) = (Vec::new(), 0);
        let mut failed = None;
        let (from_ms, to_ms) = (self.from_ms, self.to_ms);
        from.raw(from_ms, to_ms, |moment| {
            let turns = minute
                .last()
                .is_some_and(|last: &Moment| minute_of(last.at_ms) != minute_of(moment.at_ms));
            if turns && let Err(error) = put_block(&mut file, to, &mut minute) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            count += 1;
            let guests = self.keys(moment.guests);
            let processes = self.processes(moment.processes);
            minute.push(Moment { guests, processes, ..moment });
            ControlFlow::Continue(())
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        put_block(&mut file, to, &mut minute)?;
        Ok(count)
    }

    fn passes(&mut self, from: &Path, to: &Path) -> Result<u64, Error> {
        let mut recorder = PassRecorder::new(to, i64::MAX, u64::MAX);
        let mut known: HashMap<Arc<GuestIdentity>, Arc<GuestIdentity>> = HashMap::new();
        let (mut count, mut failed) = (0, None);
        passes::visit(from, self.from_ms, self.to_ms, |pass| {
            let guests = pass.guests.into_iter().map(|(key, guest)| {
                let who = known.entry(Arc::clone(&guest.who));
                let who = Arc::clone(who.or_insert_with(|| Arc::new(self.who(&guest.who))));
                (key, PassGuest { who, ..guest })
            });
            let pass = PassInput { guests: guests.collect(), ..pass };
            count += 1;
            match recorder.record(&pass) {
                Some(crate::News::Failed(error)) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        })?;
        match failed {
            Some(error) => Err(error),
            None => recorder.close().map(|()| count),
        }
    }

    /// Exports the journal's rows of the time range into another journal.
    pub fn journal(&mut self, from: &Journal, to: &mut Journal) -> Result<u64, Error> {
        let range = Range { from_ms: self.from_ms, to_ms: self.to_ms.saturating_sub(1) };
        // The journal's time at which a guest was last seen may be a minute too early.
        let guests: Vec<GuestRow> = from
            .guests()?
            .into_iter()
            .filter(|guest| guest.last_ms.saturating_add(MINUTE_MS) >= range.from_ms)
            .filter(|guest| guest.first_ms <= range.to_ms)
            .collect();
        let mut count = 0;
        for part in guests.chunks(GUESTS_MAX) {
            count += self.journal_of(part, range, from, to)?;
        }
        Ok(count)
    }

    fn journal_of(
        &mut self,
        guests: &[GuestRow],
        range: Range,
        from: &Journal,
        to: &mut Journal,
    ) -> Result<u64, Error> {
        let mut renamed: HashMap<GuestKey, GuestIdentity> = HashMap::new();
        for guest in guests {
            renamed.insert(guest.key, self.who(&guest.guest));
        }
        let keys: Vec<GuestKey> = guests.iter().map(|guest| guest.key).collect();
        let (mut count, mut failed) = (0, None);
        let query = Query { guests: keys.clone(), range, policy: None };
        from.decisions(&query, |decided| {
            let Some(who) = renamed.get(&decided.guest) else { return ControlFlow::Continue(()) };
            count += 1;
            match self.decision(decided, who, to) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        for found in from.events(&keys, range, EVENTS_MAX)? {
            let mut event = found.event;
            // The text of an event may contain names, for example in a socket's path, so only the
            // kind is exported.
            if self.names.is_some() {
                event.text.clear();
            }
            let who = found.guest.and_then(|guest| renamed.get(&guest));
            let guest = who.map(|who| to.guest(who, event.at_ms)).transpose()?;
            to.event(guest, &event)?;
        }
        Ok(count)
    }

    fn decision(
        &self,
        decided: Decided,
        who: &GuestIdentity,
        to: &mut Journal,
    ) -> Result<(), Error> {
        let mut decision = decided.decision;
        if self.names.is_some() {
            decision.detail.clear();
        }
        let guest = to.guest(who, decision.at_ms)?;
        let id = to.decision(guest, &decision)?;
        decided.outcomes.iter().try_for_each(|outcome| to.outcome(id, outcome))
    }
}

fn put_block(file: &mut Option<RawFile>, to: &Path, minute: &mut Vec<Moment>) -> Result<(), Error> {
    let (Some(first), Some(last)) = (minute.first(), minute.last()) else { return Ok(()) };
    let (at_ms, to_ms) = (first.at_ms, last.at_ms);
    let mut encoder = Encoder::default();
    let chain: Vec<u8> = minute.iter().flat_map(|moment| encoder.encode(moment)).collect();
    let count = i64::try_from(minute.len()).unwrap_or(i64::MAX);
    let packed = Block { at_ms, to_ms, count, bytes: block(&chain) };
    let opened = match file.take() {
        Some(opened) => opened,
        None => RawFile::open(to)?,
    };
    let nothing = Seconds::FromScratch { known: &[], moments: &[] };
    file.insert(opened).write(std::iter::once(&packed), nothing)?;
    minute.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_pseudonym_that_contains_no_part_of_it() {
        let mut names = Names::default();
        let who = GuestIdentity {
            uuid: "6f0e".into(),
            name: "payroll".into(),
            class: "secret".into(),
            boot: "b".into(),
            ..GuestIdentity::default()
        };
        let renamed = names.guest(&who);
        assert_eq!((renamed.name.as_str(), renamed.class.as_str()), ("guest1", "class1"));
        assert_eq!((renamed.uuid.as_str(), renamed.boot.as_str()), ("uuid1", "boot1"));
        assert_eq!(names.guest(&who), renamed);
        let process = ProcessName { name: "cobol".into(), pid: 7 };
        assert_eq!(names.process(&process), ProcessName { name: "process1".into(), pid: 7 });
    }
}
