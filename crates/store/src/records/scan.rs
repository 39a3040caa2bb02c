//! Rows read: the columns that are wanted of a file's tables, and no others.
//!
//! A day of a hundred guests has 144,000 rows of sixty columns, and a report needs a dozen of
//! them. So a statement names the columns that it is after, and is made once for a file; a table
//! that nobody asks for is not opened. Rows lie in the order of their time: each step is one
//! stretch of a table.

use super::rows::RowFile;
use super::schema::{ROWS, Table, column_names};
use crate::Error;
use crate::bound::Order;
use crate::error::cannot;
use model::{
    Field, GuestField, GuestIdentity, HostField, Interval, Over, Parts, ProcessField, ProcessName,
    TierField,
};
use rusqlite::Row as SqlRow;
use std::collections::{BTreeMap, HashMap};

/// Which fields are wanted of each part of an interval; `None` for a part that is not wanted at
/// all. Fields that are not wanted are as if they were missing. The host is always there, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Of guests.
    pub guests: Option<Vec<GuestField>>,
    /// Of tiers of memory.
    pub tiers: Option<Vec<TierField>>,
    /// Of processes.
    pub processes: Option<Vec<ProcessField>>,
}

impl From<Parts> for Pick {
    fn from(parts: Parts) -> Pick {
        Pick {
            guests: parts.guests.then(|| GuestField::ALL.to_vec()),
            tiers: parts.tiers.then(|| TierField::ALL.to_vec()),
            processes: parts.processes.then(|| ProcessField::ALL.to_vec()),
        }
    }
}

/// How the rows of one table of a file are asked for.
#[derive(Debug)]
struct Scan<F> {
    text: String,
    fields: Vec<F>,
}

impl<F: Table> Scan<F> {
    /// The wanted fields that the file has.
    fn new(file: &RowFile, wanted: &[F]) -> Result<Scan<F>, Error> {
        let table = F::table(file.grain);
        let known =
            column_names(&file.connection, &table).map_err(cannot("read rows of a recording"))?;
        let is_known = |field: &&F| known.iter().any(|name| name == field.name());
        // In the order of a row, so that values come one behind the other.
        let mut fields: Vec<F> = wanted.iter().filter(is_known).copied().collect();
        fields.sort_unstable();
        let mut text = format!("SELECT id, covered_ms, {}", F::WHOSE.unwrap_or("0"));
        for field in &fields {
            text.push_str(", ");
            text.push_str(field.name());
        }
        text.push_str(&format!(" FROM {table} WHERE id >= ? AND id < ? ORDER BY id"));
        Ok(Scan { text, fields })
    }

    /// Visits the rows from one time up to before another: their numbers, whose they are, what
    /// they say is covered, and their values, which the visitor may take.
    fn each(
        &self,
        file: &RowFile,
        from_ms: i64,
        to_ms: i64,
        mut visit: impl FnMut(i64, i64, Option<u64>, &mut Over<F>),
    ) -> Result<(), Error> {
        let failed = cannot("read rows of a recording");
        let mut statement = file.connection.prepare_cached(&self.text).map_err(&failed)?;
        let mut rows = statement.query(file.ids(from_ms, to_ms)).map_err(&failed)?;
        let mut order = Order::of(F::NAME);
        let mut over = Over::default();
        while let Some(row) = rows.next().map_err(&failed)? {
            let id: i64 = row.get(0).map_err(&failed)?;
            order.next(id, id)?;
            let ms = number(row, 1).map(i64::unsigned_abs);
            over.covered_ms = ms.unwrap_or(0);
            over.row.clear();
            for (place, field) in self.fields.iter().enumerate() {
                over.row.set(*field, number(row, place + 3).map(i64::unsigned_abs));
            }
            visit(id, number(row, 2).unwrap_or(0), ms, &mut over);
        }
        Ok(())
    }
}

/// What is no number is missing: no version of ours writes it.
fn number(row: &SqlRow<'_>, place: usize) -> Option<i64> {
    row.get_ref(place).ok()?.as_i64().ok()
}

/// What is known to be covered of the spans of a file, by their numbers.
type Covered = HashMap<i64, u64>;

/// A process's sums: of the step that is being added up, and of those before.
struct Running {
    step: i64,
    now: Over<ProcessField>,
    before: Over<ProcessField>,
}

/// Processes of guests by their names.
pub type Processes = BTreeMap<GuestIdentity, BTreeMap<ProcessName, Over<ProcessField>>>;

/// A file that is being read: its statements, and its names, which are read when they are first
/// needed.
#[derive(Debug)]
pub struct Reading {
    file: RowFile,
    host: Scan<HostField>,
    guests: Option<Scan<GuestField>>,
    tiers: Option<Scan<TierField>>,
    processes: Option<Scan<ProcessField>>,
    guest_names: Option<HashMap<i64, GuestIdentity>>,
    tier_names: Option<HashMap<i64, String>>,
    process_names: Option<HashMap<i64, (i64, ProcessName)>>,
}

impl Reading {
    /// Of a file, so much.
    pub fn new(file: RowFile, pick: &Pick) -> Result<Reading, Error> {
        Ok(Reading {
            host: Scan::new(&file, HostField::ALL)?,
            guests: pick.guests.as_ref().map(|of| Scan::new(&file, of)).transpose()?,
            tiers: pick.tiers.as_ref().map(|of| Scan::new(&file, of)).transpose()?,
            processes: pick.processes.as_ref().map(|of| Scan::new(&file, of)).transpose()?,
            file,
            guest_names: None,
            tier_names: None,
            process_names: None,
        })
    }

    /// Adds the rows from one time up to before another to an interval.
    pub fn add(&mut self, from_ms: i64, to_ms: i64, sum: &mut Interval) -> Result<(), Error> {
        let file = &self.file;
        let mut covered = Covered::new();
        self.host.each(file, from_ms, to_ms, |id, _, ms, over| {
            covered.insert(id / ROWS, ms.unwrap_or(0));
            sum.host.add(over);
        })?;
        let is_one = covered.len() < 2;
        if let Some(scan) = &self.guests {
            let mut found = Vec::new();
            for (key, over) in sums(scan, file, from_ms, to_ms, &covered, is_one)? {
                if let Some(who) = named(&mut self.guest_names, || file.guests(), key)? {
                    found.push((who.clone(), over));
                }
            }
            put_all(&mut sum.guests, found);
        }
        if let Some(scan) = &self.tiers {
            for (key, over) in sums(scan, file, from_ms, to_ms, &covered, is_one)? {
                if let Some(name) = named(&mut self.tier_names, || file.tiers(), key)? {
                    put(&mut sum.tiers, name, over);
                }
            }
        }
        if let Some(scan) = &self.processes {
            for (key, over) in sums(scan, file, from_ms, to_ms, &covered, is_one)? {
                let found = named(&mut self.process_names, || file.processes(), key)?;
                let Some((guest, name)) = found else { continue };
                let who = named(&mut self.guest_names, || file.guests(), *guest)?;
                let Some(who) = who else { continue };
                let processes = match sum.processes.get_mut(who) {
                    Some(processes) => processes,
                    None => sum.processes.entry(who.clone()).or_default(),
                };
                put(processes, name, over);
            }
        }
        Ok(())
    }

    /// Adds processes from one time up to before another, step by step, to what they did before.
    /// There are too many rows of them to make intervals of each step.
    pub fn add_processes(
        &mut self,
        from_ms: i64,
        to_ms: i64,
        step_of: impl Fn(i64) -> i64,
        sum: &mut Processes,
    ) -> Result<(), Error> {
        let Some(scan) = &self.processes else { return Ok(()) };
        let file = &self.file;
        let mut covered = Covered::new();
        let mut steps = HashMap::new();
        self.host.each(file, from_ms, to_ms, |id, _, ms, _| {
            covered.insert(id / ROWS, ms.unwrap_or(0));
        })?;
        let mut found: HashMap<i64, Running> = HashMap::new();
        scan.each(file, from_ms, to_ms, |id, key, ms, over| {
            let span = id / ROWS;
            over.covered_ms = ms.unwrap_or_else(|| covered.get(&span).copied().unwrap_or(0));
            let step = *steps.entry(span).or_insert_with(|| step_of(file.begin_of(id)));
            match found.get_mut(&key) {
                Some(running) if running.step == step => running.now.add(over),
                Some(running) => {
                    running.before.add(&running.now);
                    running.now.clone_from(over);
                    running.step = step;
                }
                None => {
                    let (now, before) = (over.clone(), Over::default());
                    found.insert(key, Running { step, now, before });
                }
            }
        })?;
        for (key, mut running) in found {
            let name = named(&mut self.process_names, || file.processes(), key)?;
            let Some((guest, name)) = name else { continue };
            let who = named(&mut self.guest_names, || file.guests(), *guest)?;
            let Some(who) = who else { continue };
            running.before.add(&running.now);
            put(sum.entry(who.clone()).or_default(), name, running.before);
        }
        Ok(())
    }
}

/// Adds what a name has, which mostly is there for the first time.
pub fn put<K: Ord + Clone, F: Field>(all: &mut BTreeMap<K, Over<F>>, key: &K, over: Over<F>) {
    match all.get_mut(key) {
        Some(known) => known.add(&over),
        None => {
            all.insert(key.clone(), over);
        }
    }
}

/// Adds what many have. They were written in their order, and then need no look for their places.
fn put_all<K: Ord + Clone, F: Field>(all: &mut BTreeMap<K, Over<F>>, found: Vec<(K, Over<F>)>) {
    if all.is_empty() && found.is_sorted_by(|(a, _), (b, _)| a < b) {
        *all = found.into_iter().collect();
        return;
    }
    for (key, over) in found {
        put(all, &key, over);
    }
}

/// The sums of a table by their keys, in the order in which these were first met. In one span,
/// nothing has two rows.
fn sums<F: Table>(
    scan: &Scan<F>,
    file: &RowFile,
    from_ms: i64,
    to_ms: i64,
    covered: &Covered,
    is_one: bool,
) -> Result<Vec<(i64, Over<F>)>, Error> {
    let mut found: Vec<(i64, Over<F>)> = Vec::new();
    let mut places: HashMap<i64, usize> = HashMap::new();
    let mut span = (i64::MIN, 0);
    scan.each(file, from_ms, to_ms, |id, key, ms, over| {
        if span.0 != id / ROWS {
            span = (id / ROWS, covered.get(&(id / ROWS)).copied().unwrap_or(0));
        }
        over.covered_ms = ms.unwrap_or(span.1);
        if is_one {
            found.push((key, over.clone()));
            return;
        }
        match places.get(&key) {
            Some(place) => found[*place].1.add(over),
            None => {
                places.insert(key, found.len());
                found.push((key, over.clone()));
            }
        }
    })?;
    Ok(found)
}

/// A name by its key; names are read once more when there is a new one.
fn named<T>(
    names: &mut Option<HashMap<i64, T>>,
    read: impl Fn() -> Result<HashMap<i64, T>, Error>,
    key: i64,
) -> Result<Option<&T>, Error> {
    if names.as_ref().is_none_or(|names| !names.contains_key(&key)) {
        *names = Some(read()?);
    }
    Ok(names.as_ref().and_then(|names| names.get(&key)))
}
