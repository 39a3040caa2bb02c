//! Reading of rows, restricted to the wanted columns of a file's tables.
//!
//! A day of a hundred guests has 144,000 rows of more than a hundred columns, and a report needs a
//! dozen of these columns. A statement therefore reads only these columns, and is prepared once per
//! file. Rows are in the order of their times, so each step is one range of a table.

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

/// Wanted fields of each part of an interval; `None` for an unwanted part. Unwanted fields are
/// returned as missing values. The host is always returned in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Fields of guests.
    pub guests: Option<Vec<GuestField>>,
    /// Fields of tiers of memory.
    pub tiers: Option<Vec<TierField>>,
    /// Fields of processes.
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

/// Query for the rows of one table of a file.
#[derive(Debug)]
struct Scan<F> {
    text: String,
    fields: Vec<F>,
}

impl<F: Table> Scan<F> {
    /// Prepares the query for the wanted fields that the file has.
    fn new(file: &RowFile, wanted: &[F]) -> Result<Scan<F>, Error> {
        let table = F::table(file.grain);
        let known =
            column_names(&file.connection, &table).map_err(cannot("read rows of a recording"))?;
        let is_known = |field: &&F| known.iter().any(|name| name == field.name());
        // Fields are in the order of a row's columns, so that values are read sequentially.
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

    /// Visits the rows in `from_ms..to_ms`, each as number, owner, covered time and values. The
    /// visitor may move the values out.
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

/// Reads a number. Any other type counts as missing, because no version writes another type.
fn number(row: &SqlRow<'_>, place: usize) -> Option<i64> {
    row.get_ref(place).ok()?.as_i64().ok()
}

/// Covered time of each span of a file, by the span's number.
type Covered = HashMap<i64, u64>;

/// Sums of a process over the current step, and over the earlier steps.
struct Running {
    step: i64,
    now: Over<ProcessField>,
    before: Over<ProcessField>,
}

/// Sums of each guest's processes, by the process's name.
pub type Processes = BTreeMap<GuestIdentity, BTreeMap<ProcessName, Over<ProcessField>>>;

/// A file being read: its statements, and its names, which are read on first use.
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
    /// Prepares the reading of the wanted fields of a file.
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

    /// Adds the rows in `from_ms..to_ms` to an interval.
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

    /// Adds the processes in `from_ms..to_ms` to the sums, step by step. No interval is built for
    /// each step, because there are too many rows.
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

/// Adds values to the entry with the same name. Usually the name is new.
pub fn put<K: Ord + Clone, F: Field>(all: &mut BTreeMap<K, Over<F>>, key: &K, over: Over<F>) {
    match all.get_mut(key) {
        Some(known) => known.add(&over),
        None => {
            all.insert(key.clone(), over);
        }
    }
}

/// Adds the values of many names. Sorted names are collected into an empty map without a search.
fn put_all<K: Ord + Clone, F: Field>(all: &mut BTreeMap<K, Over<F>>, found: Vec<(K, Over<F>)>) {
    if all.is_empty() && found.is_sorted_by(|(a, _), (b, _)| a < b) {
        *all = found.into_iter().collect();
        return;
    }
    for (key, over) in found {
        put(all, &key, over);
    }
}

/// Returns the sums of a table by key, in the order of first occurrence. A key has at most one row
/// in each span.
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

/// Returns a name by its key. If the key is unknown, reads all names again.
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
