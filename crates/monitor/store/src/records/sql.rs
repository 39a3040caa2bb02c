//! Read-only SQL queries of the user over all files as one set of tables.
//!
//! Files are attached to a database in memory, and a temporary view for each table joins their rows
//! with times and names, as in `tables()`. A query cannot reach any other file, because attaching
//! is disabled. Only statements that return rows are executed.

use super::calendar::Period;
use super::keep::periods;
use super::raw;
use super::read::Records;
use super::schema::{Grain, RAW, ROWS, Table, column_names};
use super::tables::WHO;
use crate::db::Kind;
use crate::{Error, db};
use model::{GuestField, HostField, ProcessField, TierField};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use std::ops::ControlFlow;
use std::path::Path;

/// Maximum number of files that SQLite attaches.
const ATTACHED_MAX: usize = 10;
/// Maximum length of a query in bytes. A view of a hundred columns has some thousand bytes.
const TEXT_MAX: i32 = 100_000;

/// A value in a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// NULL: a missing value.
    Null,
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// A text, possibly chosen by a guest: escape it.
    Text(String),
    /// A blob. Only its length is returned.
    Bytes(usize),
}

/// All files of a directory, for SQL queries.
#[derive(Debug)]
pub struct Sql {
    connection: Connection,
    /// Files that were left out because there are too many.
    left_out: Vec<String>,
}

impl Records {
    /// Opens the files for SQL queries, or only the newest files if there are too many.
    pub fn sql(&self) -> Result<Sql, Error> {
        let dir = self.dir();
        let failed = |source| Error::Open { path: dir.into(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_in_memory_with_flags(flags).map_err(failed)?;
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)
            .map_err(failed)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false).map_err(failed)?;
        db::limit_values(&connection).map_err(failed)?;
        connection.busy_timeout(db::BUSY_READER).map_err(failed)?;
        let mut attached = Vec::new();
        let mut left_out = Vec::new();
        if db::open_if_begun(&dir.join(raw::FILE), &RAW, db::BUSY_READER)?.is_some() {
            attach(&connection, &dir.join(raw::FILE), "raw_samples", &RAW)?;
        }
        let room = ATTACHED_MAX - 1;
        for period in periods(dir)?.into_iter().rev() {
            let path = dir.join(period.file());
            let kind = Grain::of(period).kind();
            if db::open_if_begun(&path, kind, db::BUSY_READER)?.is_none() {
                continue;
            }
            if attached.len() == room {
                left_out.push(period.file());
                continue;
            }
            let name = format!("file_{}", attached.len());
            attach(&connection, &path, &name, kind)?;
            attached.push((period, name));
        }
        attached.reverse();
        for grain in [Grain::Minute, Grain::Quarter] {
            let files: Vec<&(Period, String)> =
                attached.iter().filter(|(period, _)| Grain::of(*period) == grain).collect();
            view::<HostField>(&connection, grain, &files).map_err(failed)?;
            view::<GuestField>(&connection, grain, &files).map_err(failed)?;
            view::<TierField>(&connection, grain, &files).map_err(failed)?;
            view::<ProcessField>(&connection, grain, &files).map_err(failed)?;
            if grain == Grain::Quarter {
                let parts = files.iter().map(|(_, file)| format!("SELECT * FROM {file}.gap"));
                let none = "SELECT NULL AS from_ms, NULL AS to_ms, NULL AS reason WHERE 0";
                let text = union(parts, none);
                connection
                    .execute_batch(&format!("CREATE TEMP VIEW gap AS {text}"))
                    .map_err(failed)?;
            }
        }
        connection.pragma_update(None, "query_only", true).map_err(failed)?;
        // From here on no further file can be attached, so the user's query reads only these files.
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0).map_err(failed)?;
        connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, TEXT_MAX).map_err(failed)?;
        Ok(Sql { connection, left_out })
    }
}

impl Sql {
    /// Returns the files that were left out because there are too many.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Runs one query. The visitor receives the columns' names, and each row, until the visitor
    /// breaks off.
    pub fn ask<V>(&self, text: &str, visitor: &mut V) -> Result<(), Error>
    where
        V: FnMut(&[String], &[Cell]) -> ControlFlow<()>,
    {
        let failed = |source| match source {
            rusqlite::Error::MultipleStatement => {
                Error::Refused { reason: "write one query at a time, without a `;` in between" }
            }
            source => Error::Sql { source },
        };
        let mut statement = self.connection.prepare(text).map_err(failed)?;
        if statement.column_count() == 0 || !statement.readonly() {
            return Err(Error::Refused {
                reason: "only SELECT and other statements that return rows are allowed",
            });
        }
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        if visitor(&names, &[]).is_break() {
            return Ok(());
        }
        let mut rows = statement.query([]).map_err(failed)?;
        let mut cells = Vec::with_capacity(names.len());
        while let Some(row) = rows.next().map_err(failed)? {
            cells.clear();
            for place in 0..names.len() {
                cells.push(match row.get_ref(place).map_err(failed)? {
                    ValueRef::Null => Cell::Null,
                    ValueRef::Integer(number) => Cell::Integer(number),
                    ValueRef::Real(number) => Cell::Real(number),
                    ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
                    ValueRef::Blob(bytes) => Cell::Bytes(bytes.len()),
                });
            }
            if visitor(&names, &cells).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Attaches a file read-only. If no process has the file open, a user without write access to the
/// file's directory reads the file as immutable.
fn attach(connection: &Connection, path: &Path, name: &str, kind: &Kind) -> Result<(), Error> {
    let with = |option| {
        connection.execute(&format!("ATTACH ? AS {name}"), [db::uri(path, option)])?;
        db::stranger(connection, name, kind)
    };
    let stranger = with("mode=ro")
        .or_else(|error| {
            if !db::is_missing_log(path, &error) {
                return Err(error);
            }
            // SQLite may have attached the file although it is unreadable.
            let _ = connection.execute(&format!("DETACH {name}"), []);
            with("immutable=1")
        })
        .map_err(|source| Error::Open { path: path.into(), source })?;
    match stranger {
        Some(name) => Err(Error::Altered { path: path.into(), name }),
        None => Ok(()),
    }
}

fn union(parts: impl Iterator<Item = String>, none: &str) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { none.to_owned() } else { parts.join(" UNION ALL ") }
}

/// Creates the view of a table over all files that have it.
fn view<F: Table>(
    connection: &Connection,
    grain: Grain,
    files: &[&(Period, String)],
) -> rusqlite::Result<()> {
    let (prefix, length_ms) = (grain.prefix(), grain.length_ms());
    let table = F::table(grain);
    let mut parts = Vec::new();
    let whose: Vec<(&str, &str)> = whose::<F>();
    for (period, file) in files {
        let known = column_names(connection, &format!("{file}.{table}"))?;
        let base_ms = period.begin_ms();
        let mut text = format!("SELECT {base_ms} + r.id / {ROWS} * {length_ms} AS at_ms");
        for (name, column) in &whose {
            text.push_str(&format!(", {column} AS {name}"));
        }
        text.push_str(", coalesce(r.covered_ms, h.covered_ms) AS covered_ms");
        for field in F::ALL {
            let name = field.name();
            match known.iter().any(|known| known == name) {
                true => text.push_str(&format!(", r.{name} AS {name}")),
                false => text.push_str(&format!(", NULL AS {name}")),
            }
        }
        text.push_str(&format!(
            " FROM {file}.{table} AS r LEFT JOIN {file}.{prefix}_host AS h \
             ON h.id = r.id / {ROWS} * {ROWS}"
        ));
        text.push_str(&match F::WHOSE {
            None => String::new(),
            Some("process") => format!(
                " JOIN {file}.process AS p ON p.key = r.process \
                 JOIN {file}.guest AS g ON g.key = p.guest"
            ),
            Some(thing) => format!(" JOIN {file}.{thing} AS g ON g.key = r.{thing}"),
        });
        parts.push(text);
    }
    let mut none = String::from("SELECT NULL AS at_ms");
    let names = whose.iter().map(|(name, _)| *name).chain(["covered_ms"]);
    for name in names.chain(F::ALL.iter().map(|field| field.name())) {
        none.push_str(&format!(", NULL AS {name}"));
    }
    none.push_str(" WHERE 0");
    let text = union(parts.into_iter(), &none);
    connection.execute_batch(&format!("CREATE TEMP VIEW {table} AS {text}"))
}

/// Returns the columns that identify a row's owner, with their sources.
fn whose<F: Table>() -> Vec<(&'static str, &'static str)> {
    const GUEST: [&str; 6] = ["g.name", "g.uuid", "g.class", "g.pid", "g.start_ticks", "g.boot"];
    let guest = WHO.iter().map(|column| column.name).zip(GUEST);
    match F::NAME {
        "guest" => guest.collect(),
        "tier" => vec![("tier", "g.name")],
        "process" => guest.chain([("name", "p.name"), ("pid", "p.pid")]).collect(),
        _ => Vec::new(),
    }
}
