//! File of rows: a day of minutes, or a month of quarters of an hour.

use super::calendar::Period;
use super::schema::{Grain, ROWS, Table, column_names, insert};
use crate::bound::{NAME_MAX, cut, in_order, text, to_integer};
use crate::error::cannot;
use crate::{Error, db};
use model::{
    Gap, GuestField, GuestIdentity, HostField, Interval, Over, ProcessField, ProcessName, TierField,
};
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, ToSql, params, params_from_iter};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

const WRITE: &str = "write rows of a recording";
const READ: &str = "read rows of a recording";

/// An open file of rows.
#[derive(Debug)]
pub struct RowFile {
    pub(super) connection: Connection,
    pub(super) grain: Grain,
    base_ms: i64,
    to_ms: i64,
    names: Names,
    columns: HashMap<&'static str, Columns>,
}

#[derive(Debug)]
struct Columns {
    /// For each field, true if it has a column.
    has: Vec<bool>,
    /// Statement that fills all columns. The statement is kept prepared, because a minute has
    /// thousands of rows, and new columns are rare.
    insert: String,
}

impl Columns {
    fn new<F: Table>(grain: Grain, has: Vec<bool>) -> Columns {
        let insert = insert(grain, present::<F>(&has));
        Columns { has, insert }
    }
}

/// Returns the fields that have a column, in the order of the statement.
fn present<F: Table>(has: &[bool]) -> impl Iterator<Item = F> {
    F::ALL.iter().copied().filter(|field| has[field.index()])
}

/// Keys that stand for names in rows.
#[derive(Debug, Default)]
struct Names {
    guests: HashMap<GuestIdentity, i64>,
    tiers: HashMap<String, i64>,
    processes: HashMap<(i64, ProcessName), i64>,
}

impl RowFile {
    /// Opens the file of a period for writing, and creates it if it is missing.
    pub fn open(dir: &Path, period: Period) -> Result<RowFile, Error> {
        let grain = Grain::of(period);
        let path = dir.join(period.file());
        let connection = db::open(&path, grain.kind())?;
        let mut file = RowFile::over(connection, period);
        file.connection
            .execute(
                "INSERT INTO file SELECT ?, ? WHERE NOT EXISTS (SELECT * FROM file)",
                [period.begin_ms(), grain.length_ms()],
            )
            .map_err(cannot("begin a file of recordings"))?;
        file.read_known()?;
        Ok(file)
    }

    /// Opens the file of a period for reading; `None` if it is missing or has no tables.
    pub fn read_only(dir: &Path, period: Period) -> Result<Option<RowFile>, Error> {
        RowFile::read_within(dir, period, db::BUSY_READER)
    }

    /// Opens the file like `read_only`, with a timeout for another process's lock.
    pub fn read_within(
        dir: &Path,
        period: Period,
        wait: Duration,
    ) -> Result<Option<RowFile>, Error> {
        let kind = Grain::of(period).kind();
        let opened = db::open_if_begun(&dir.join(period.file()), kind, wait)?;
        Ok(opened.map(|connection| RowFile::over(connection, period)))
    }

    fn over(connection: Connection, period: Period) -> RowFile {
        let (base_ms, to_ms) = (period.begin_ms(), period.end_ms());
        connection.set_prepared_statement_cache_capacity(32);
        RowFile {
            connection,
            grain: Grain::of(period),
            base_ms,
            to_ms,
            names: Names::default(),
            columns: HashMap::new(),
        }
    }

    /// Reads the names and the columns of the file.
    fn read_known(&mut self) -> Result<(), Error> {
        self.names = Names {
            guests: self.guests()?.into_iter().map(|(key, who)| (who, key)).collect(),
            tiers: self.tiers()?.into_iter().map(|(key, name)| (name, key)).collect(),
            processes: self
                .processes()?
                .into_iter()
                .map(|(key, guest_and_name)| (guest_and_name, key))
                .collect(),
        };
        self.read_columns::<HostField>()?;
        self.read_columns::<GuestField>()?;
        self.read_columns::<TierField>()?;
        self.read_columns::<ProcessField>()
    }

    fn read_columns<F: Table>(&mut self) -> Result<(), Error> {
        let known = column_names(&self.connection, &F::table(self.grain))
            .map_err(cannot("read the columns of a recording"))?;
        let has_column = |field: &F| known.iter().any(|name| name == field.name());
        let has = F::ALL.iter().map(has_column).collect();
        self.columns.insert(F::NAME, Columns::new::<F>(self.grain, has));
        Ok(())
    }

    /// Returns the start of a row's span.
    pub(super) fn begin_of(&self, id: i64) -> i64 {
        (id / ROWS).saturating_mul(self.grain.length_ms()).saturating_add(self.base_ms)
    }

    /// Returns the ids of the first rows at or after two times.
    pub(super) fn ids(&self, from_ms: i64, to_ms: i64) -> [i64; 2] {
        let number = |at_ms: i64| {
            let at_ms = at_ms.clamp(self.base_ms, self.to_ms) - self.base_ms;
            (at_ms + self.grain.length_ms() - 1).div_euclid(self.grain.length_ms()) * ROWS
        };
        [number(from_ms), number(to_ms)]
    }

    /// Writes the rows of a span in one transaction, and replaces an earlier version of the rows.
    pub fn write(&mut self, span: &Interval) -> Result<(), Error> {
        let done = self.try_write(span);
        if done.is_err() {
            // If the disk is full, SQLite has already ended the transaction, without its new
            // columns and names. If the columns and names cannot be read again, the recorder
            // reopens the file.
            let _ = self.connection.execute_batch("ROLLBACK");
            let _ = self.read_known();
        }
        done
    }

    fn try_write(&mut self, span: &Interval) -> Result<(), Error> {
        let failed = cannot(WRITE);
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(&failed)?;
        let [id, next] = self.ids(span.from_ms, span.from_ms + self.grain.length_ms());
        if (self.base_ms..self.to_ms).contains(&span.from_ms) {
            self.delete::<HostField>(id, next)?;
            self.delete::<GuestField>(id, next)?;
            self.delete::<TierField>(id, next)?;
            self.delete::<ProcessField>(id, next)?;
            let whole = span.host.covered_ms;
            self.put(id, None, &span.host, 0)?;
            let most = usize::try_from(ROWS).unwrap_or(usize::MAX);
            for ((who, over), id) in span.guests.iter().take(most).zip(id..) {
                let key = self.guest_key(who)?;
                self.put(id, Some(key), over, whole)?;
            }
            for ((name, over), id) in span.tiers.iter().take(most).zip(id..) {
                let key = self.tier_key(name)?;
                self.put(id, Some(key), over, whole)?;
            }
            let all = span
                .processes
                .iter()
                .flat_map(|(who, all)| all.iter().map(move |(name, over)| (who, name, over)));
            // Inactive processes get no row. In most minutes most processes are inactive.
            let busy = all.filter(|(_, _, over)| did_something(over));
            for ((who, name, over), id) in busy.take(most).zip(id..) {
                let guest = self.guest_key(who)?;
                let key = self.process_key(guest, name)?;
                self.put(id, Some(key), over, whole)?;
            }
        }
        self.connection.execute_batch("COMMIT").map_err(&failed)
    }

    /// Adds gaps to a month's file.
    pub fn add_gaps(&self, gaps: &[Gap]) -> Result<(), Error> {
        for gap in gaps {
            let text = "INSERT OR IGNORE INTO gap VALUES (?, ?, ?)";
            let values = params![gap.from_ms, gap.to_ms, cut(&gap.reason, NAME_MAX)];
            db::execute(&self.connection, text, values, "note a gap")?;
        }
        Ok(())
    }

    fn delete<F: Table>(&self, id: i64, next: i64) -> Result<(), Error> {
        let text = format!("DELETE FROM {} WHERE id >= ? AND id < ?", F::table(self.grain));
        db::execute(&self.connection, &text, [id, next], WRITE)
    }

    /// Writes a row. The row's covered time is stored only if it differs from `whole`, the host's
    /// covered time.
    fn put<F: Table>(
        &mut self,
        id: i64,
        whose: Option<i64>,
        over: &Over<F>,
        whole: u64,
    ) -> Result<(), Error> {
        let grain = self.grain;
        let none = || Columns::new::<F>(grain, vec![false; F::ALL.len()]);
        let columns = self.columns.entry(F::NAME).or_insert_with(none);
        // A NULL takes a byte in each row, so a field gets its column only with its first value.
        let mut is_new = false;
        for (field, _) in over.row.known() {
            if !std::mem::replace(&mut columns.has[field.index()], true) {
                is_new = true;
                let table = F::table(grain);
                let text = format!("ALTER TABLE {table} ADD COLUMN {} INTEGER", field.name());
                self.connection.execute(&text, []).map_err(cannot(WRITE))?;
            }
        }
        if is_new {
            columns.insert = insert(grain, present::<F>(&columns.has));
        }
        let is_whole = whose.is_some() && over.covered_ms == whole;
        let covered = (!is_whole).then(|| to_integer(over.covered_ms));
        let mut values = vec![Some(id), covered];
        values.extend(whose.map(Some));
        values.extend(present(&columns.has).map(|field: F| over.get(field).map(to_integer)));
        db::execute(&self.connection, &columns.insert, params_from_iter(values), WRITE)
    }

    fn guest_key(&mut self, who: &GuestIdentity) -> Result<i64, Error> {
        if let Some(key) = self.names.guests.get(who) {
            return Ok(*key);
        }
        let values = params![
            cut(&who.uuid, NAME_MAX),
            cut(&who.name, NAME_MAX),
            cut(&who.class, NAME_MAX),
            who.pid,
            who.start_ticks.map(to_integer),
            cut(&who.boot, NAME_MAX)
        ];
        let names = "INSERT INTO guest (uuid, name, class, pid, start_ticks, boot)
                     VALUES (?, ?, ?, ?, ?, ?)";
        let key = self.name(names, values)?;
        self.names.guests.insert(who.clone(), key);
        Ok(key)
    }

    fn tier_key(&mut self, name: &str) -> Result<i64, Error> {
        if let Some(key) = self.names.tiers.get(name) {
            return Ok(*key);
        }
        let key = self.name("INSERT INTO tier (name) VALUES (?)", params![cut(name, NAME_MAX)])?;
        self.names.tiers.insert(name.to_owned(), key);
        Ok(key)
    }

    fn process_key(&mut self, guest: i64, name: &ProcessName) -> Result<i64, Error> {
        let whole = (guest, name.clone());
        if let Some(key) = self.names.processes.get(&whole) {
            return Ok(*key);
        }
        let text = cut(&name.name, NAME_MAX);
        let names = "INSERT INTO process (guest, name, pid) VALUES (?, ?, ?)";
        let key = self.name(names, params![guest, text, name.pid])?;
        self.names.processes.insert(whole, key);
        Ok(key)
    }

    fn name(&self, insert: &str, values: &[&dyn ToSql]) -> Result<i64, Error> {
        self.connection
            .prepare_cached(insert)
            .and_then(|mut statement| statement.insert(values))
            .map_err(cannot("write a name in a recording"))
    }

    pub fn guests(&self) -> Result<HashMap<i64, GuestIdentity>, Error> {
        let names = "SELECT key, uuid, name, class, pid, start_ticks, boot FROM guest ORDER BY key";
        self.pairs("guest", names, |row| {
            Ok(GuestIdentity {
                uuid: text(row, 1, NAME_MAX)?,
                name: text(row, 2, NAME_MAX)?,
                class: text(row, 3, NAME_MAX)?,
                pid: row.get(4)?,
                start_ticks: row.get::<_, Option<i64>>(5)?.map(i64::unsigned_abs),
                boot: text(row, 6, NAME_MAX)?,
            })
        })
    }

    pub fn tiers(&self) -> Result<HashMap<i64, String>, Error> {
        self.pairs("tier", "SELECT key, name FROM tier ORDER BY key", |row| text(row, 1, NAME_MAX))
    }

    /// Returns all processes of the file, each with its guest's key.
    pub fn processes(&self) -> Result<HashMap<i64, (i64, ProcessName)>, Error> {
        self.pairs("process", "SELECT key, guest, name, pid FROM process ORDER BY key", |row| {
            let name = ProcessName { name: text(row, 2, NAME_MAX)?, pid: row.get(3)? };
            Ok((row.get(1)?, name))
        })
    }

    fn pairs<T>(
        &self,
        table: &'static str,
        text: &str,
        value: impl Fn(&SqlRow<'_>) -> rusqlite::Result<T>,
    ) -> Result<HashMap<i64, T>, Error> {
        let action = "read the names of a recording";
        let names = in_order(&self.connection, (table, action), text, [], |row| {
            let key: i64 = row.get(0)?;
            Ok((key, key, (key, value(row)?)))
        });
        Ok(names?.into_iter().collect())
    }

    /// Returns the starts of the spans in `from_ms..to_ms`.
    pub fn spans(&self, from_ms: i64, to_ms: i64) -> Result<Vec<i64>, Error> {
        let prefix = self.grain.prefix();
        let text = format!("SELECT id FROM {prefix}_host WHERE id >= ? AND id < ? ORDER BY id");
        let ids = self.ids(from_ms, to_ms);
        in_order(&self.connection, (HostField::NAME, READ), &text, ids, |row| {
            let id: i64 = row.get(0)?;
            Ok((id, id, self.begin_of(id)))
        })
    }

    /// Returns the covered time of the span with this start; `None` if it has no row.
    pub fn covered(&self, at_ms: i64) -> Result<Option<u64>, Error> {
        let text = format!("SELECT covered_ms FROM {}_host WHERE id = ?", self.grain.prefix());
        let [id, _] = self.ids(at_ms, at_ms);
        let found: Option<Option<i64>> = self
            .connection
            .query_row(&text, [id], |row| row.get(0))
            .optional()
            .map_err(cannot(READ))?;
        Ok(found.map(|covered| covered.unwrap_or(0).unsigned_abs()))
    }

    /// Returns the starts of the first and the last span.
    pub fn extent(&self) -> Result<Option<(i64, i64)>, Error> {
        let text = format!("SELECT min(id), max(id) FROM {}_host", self.grain.prefix());
        let start = |id: i64| self.begin_of(id);
        let ends: (Option<i64>, Option<i64>) = self
            .connection
            .query_row(&text, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(cannot(READ))?;
        Ok(ends.0.zip(ends.1).map(|(first, last)| (start(first), start(last))))
    }

    /// Returns gaps that overlap a time, from a month's file.
    pub fn gaps(&self, from_ms: i64, to_ms: i64) -> Result<Vec<Gap>, Error> {
        let sql = "SELECT from_ms, to_ms, reason, rowid FROM gap \
                   WHERE from_ms < ? AND to_ms > ? ORDER BY from_ms, to_ms";
        let action = "read the gaps of a recording";
        in_order(&self.connection, ("gap", action), sql, [to_ms, from_ms], |row| {
            let (from_ms, to_ms) = (row.get(0)?, row.get(1)?);
            let gap = Gap { from_ms, to_ms, reason: text(row, 2, NAME_MAX)? };
            Ok(((from_ms, to_ms), row.get(3)?, gap))
        })
    }
}

/// Returns true if a counter of the process is above zero.
pub(super) fn did_something(over: &Over<ProcessField>) -> bool {
    use model::{Field, Kind};
    let counters = ProcessField::ALL.iter().filter(|field| field.kind() == Kind::Counter);
    counters.map(|field| over.get(*field)).any(|grown| grown.is_some_and(|grown| grown > 0))
}
