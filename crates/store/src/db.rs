//! Opening a SQLite file of ours: whose it is, which version it has, and how it is brought up
//! to date.
//!
//! A file carries `application_id`, so that no other program's database is written to, and the
//! version of its tables in `user_version`. A kind of store is a list of migrations: the n-th
//! brings version n to n + 1, and is never changed once it has been published.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, Params};

use crate::Error;
use crate::bound::NAME_MAX;
use crate::error::cannot;
use base::plain;

/// How long a statement waits for another process's lock. The manager must not be kept from
/// its guests: what is not written now is written with the next flush.
pub const BUSY: Duration = Duration::from_millis(50);
/// How long a reader waits: a person can.
pub const BUSY_READER: Duration = Duration::from_millis(2_000);
/// Memory for pages, in KiB below 0 as SQLite has it: an index by guest touches a page for each
/// of a thousand guests in one batch, and all of them must fit.
const CACHE: i64 = -16_384;
/// The write-ahead log is taken over into the file when it has so many pages of 4 KiB. The same
/// pages are written again and again, and taking them over waits for the disk: seldom is cheap.
const LOG_PAGES: i64 = 4_096;
/// The log is cut back to this when it has been taken over, in bytes.
const LOG_MAX: i64 = 32 << 20;
/// Memory that SQLite has at most in a process, in bytes. A journal that is kept in memory has 200
/// MiB, and the caches of a manager's five files have 80.
const HEAP_MAX: i64 = 512 << 20;
/// The longest value that a reader takes, in bytes. A minute of a thousand guests that all change
/// has 30 MB before it is packed.
const VALUE_MAX: i32 = 32 << 20;
/// Ending of a copy's name that is not complete yet.
pub const COPY: &str = ".copying";
/// Endings of the files that SQLite opens with a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Tables that SQLite makes by itself: for `AUTOINCREMENT`, and for what `ANALYZE` and
/// `PRAGMA optimize` find out, which anybody may have run.
const SQLITES_OWN: [&str; 3] = [
    "CREATE TABLE sqlite_sequence(name,seq)",
    "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
];
/// A new file is for its owner to write and for its group to read: it holds guests' names.
const MODE: u32 = 0o640;

/// A kind of store.
pub struct Kind {
    /// Distinguishes its files from those of others.
    pub application_id: i32,
    /// The n-th brings version n to n + 1.
    pub migrations: &'static [&'static str],
}

impl Kind {
    fn version(&self) -> i64 {
        self.migrations.len() as i64
    }

    /// Tells if a file of this kind may have a table or an index with this text. Tables of a later
    /// version have further columns, which hold whole numbers.
    fn has(&self, text: &str) -> bool {
        if SQLITES_OWN.contains(&text) {
            return true;
        }
        let text = in_one_line(text);
        let mut ours = self.migrations.iter().flat_map(|all| all.split(';')).map(in_one_line);
        ours.any(|own| {
            let more = own.strip_suffix(')').and_then(|own| text.strip_prefix(own));
            text == own || more.is_some_and(has_only_columns)
        })
    }
}

fn in_one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Tells if a table's text ends so: with further columns of whole numbers.
fn has_only_columns(text: &str) -> bool {
    let is_name = |name: &str| name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    let is_column = |column: &str| column.strip_suffix(" INTEGER").is_some_and(is_name);
    let columns = text.strip_suffix(')').and_then(|text| text.strip_prefix(", "));
    columns.is_some_and(|columns| columns.split(", ").all(is_column))
}

/// Opens a file to write to it; makes it where it is not there.
pub fn open(path: &Path, kind: &Kind) -> Result<Connection, Error> {
    check_files(path)?;
    // A copy lies beside the file, also where its name is a link.
    clean(&std::fs::canonicalize(path).unwrap_or_else(|_| path.into()));
    let made = OpenOptions::new().append(true).create(true).mode(MODE).open(path);
    made.map_err(|source| Error::File { path: path.into(), source })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |source| Error::Open { path: path.into(), source };
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    prepare(&mut connection, BUSY).map_err(|e| not_ours(path, e))?;
    let stranger = stranger(&connection, "main", kind).map_err(|e| not_ours(path, e))?;
    let version = check_owner(&connection, path, kind)?;
    if let Some(name) = stranger {
        return Err(Error::Altered { path: path.into(), name });
    }
    bring_up_to_date(&mut connection, path, kind, version)?;
    Ok(connection)
}

/// Opens a file to read it.
pub fn open_read_only(path: &Path, kind: &Kind) -> Result<Connection, Error> {
    // A file without tables is one whose writer has not come so far yet, or an empty one.
    open_begun(path, kind, BUSY_READER)?.ok_or_else(|| Error::Foreign { path: path.into() })
}

/// Opens a file to read it, unless nothing was written to it yet: a writer that was killed while
/// it began a file leaves one without tables.
fn open_begun(path: &Path, kind: &Kind, wait: Duration) -> Result<Option<Connection>, Error> {
    check_files(path)?;
    // SQLite would only say that it cannot open it.
    std::fs::File::open(path).map_err(|source| Error::File { path: path.into(), source })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let plain = Connection::open_with_flags(path, flags)
        .and_then(|connection| {
            connection.busy_timeout(wait)?;
            looked_at(connection, kind)
        })
        .or_else(
            |e| if is_missing_log(path, &e) { open_at_rest(path, flags, kind) } else { Err(e) },
        );
    let (connection, stranger) = plain.map_err(|e| not_ours(path, e))?;
    let failed = |source| Error::Open { path: path.into(), source };
    let owner = owner(&connection).map_err(failed)?;
    if owner == Owner::NOBODY {
        return Ok(None);
    }
    if owner.application_id != kind.application_id || owner.version == 0 {
        return Err(Error::Foreign { path: path.into() });
    }
    check_version(path, owner.version, kind)?;
    match stranger {
        Some(name) => Err(Error::Altered { path: path.into(), name }),
        None => Ok(Some(connection)),
    }
}

/// Refuses a pipe or a device in the place of a file, or of one that SQLite opens with it: opening
/// a pipe waits until somebody writes to it.
fn check_files(path: &Path) -> Result<(), Error> {
    let beside = BESIDE.map(|ending| beside(path, ending));
    for path in std::iter::once(path).chain(beside.iter().map(PathBuf::as_path)) {
        match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => return Err(Error::NoFile { path: path.into() }),
            // An error is told where the file is opened.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Takes away what is left of a copy of a file, and what SQLite made beside it.
pub fn clean(path: &Path) {
    for ending in ["", "-wal", "-shm", "-journal"] {
        // One that stays is in the way of the next copy, which says so.
        let _ = remove(&beside(&beside(path, COPY), ending));
    }
}

/// Removes a file, if it is there.
pub fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Path of a file's neighbour: its own with this ending.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Opens a file to read it, unless it is not there, or nothing was written to it yet. A statement
/// waits so long for another process's lock.
pub fn open_if_begun(
    path: &Path,
    kind: &Kind,
    wait: Duration,
) -> Result<Option<Connection>, Error> {
    match open_begun(path, kind, wait) {
        Err(Error::File { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened,
    }
}

/// Takes the log of a file over into it, and checks the file. Nothing is left beside it.
pub fn take_log_over(path: &Path) -> Result<(), Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let found = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.pragma_update(None, "journal_mode", "DELETE")?;
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    });
    match found.map_err(|source| Error::Open { path: path.into(), source })?.as_str() {
        "ok" => Ok(()),
        fault => {
            let source =
                std::io::Error::new(ErrorKind::InvalidData, plain(fault, NAME_MAX).to_string());
            Err(Error::File { path: path.into(), source })
        }
    }
}

/// Carries out a statement, which is kept for the next time.
pub fn execute(
    connection: &Connection,
    text: &str,
    values: impl Params,
    action: &'static str,
) -> Result<(), Error> {
    let mut statement = connection.prepare_cached(text).map_err(cannot(action))?;
    statement.execute(values).map_err(cannot(action))?;
    Ok(())
}

/// A database in memory, which goes with its owner.
pub fn in_memory(kind: &Kind) -> Result<Connection, Error> {
    let path = Path::new(":memory:");
    let failed = |source| Error::Open { path: path.into(), source };
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    prepare(&mut connection, BUSY).map_err(failed)?;
    bring_up_to_date(&mut connection, path, kind, 0)?;
    Ok(connection)
}

/// Who may not write beside a file cannot make the index of a log that is not there. Without
/// a log nobody has the file open to write, and it can be read as it lies.
pub fn is_missing_log(path: &Path, error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    let is_refused = matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
    is_refused && !beside(path, "-wal").exists()
}

fn open_at_rest(
    path: &Path,
    flags: OpenFlags,
    kind: &Kind,
) -> rusqlite::Result<(Connection, Option<String>)> {
    let uri = uri(path, "immutable=1");
    looked_at(Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?, kind)
}

/// A connection that reads, and the name of a thing that is not ours in its file.
fn looked_at(
    mut connection: Connection,
    kind: &Kind,
) -> rusqlite::Result<(Connection, Option<String>)> {
    harden(&mut connection)?;
    limit_values(&connection)?;
    let stranger = stranger(&connection, "main", kind)?;
    Ok((connection, stranger))
}

/// Name of the first table, index, view or trigger of a database that no file of this kind has.
/// A computed column, or a value for rows without one, makes gigabytes out of a small file.
///
/// Tables that are described in bytes that are no text are refused: the library would end the
/// program where it is asked for the name of such a column.
pub fn stranger(
    connection: &Connection,
    database: &str,
    kind: &Kind,
) -> rusqlite::Result<Option<String>> {
    let text = format!("SELECT sql, name FROM {database}.sqlite_schema");
    let mut tables = connection.prepare(&text)?;
    let mut rows = tables.query([])?;
    let mut found = None;
    while let Some(row) = rows.next()? {
        let Ok(text) = row.get::<_, Option<String>>(0) else {
            let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            let reason = "a table of it is described in bytes that are no text".to_owned();
            return Err(rusqlite::Error::SqliteFailure(corrupt, Some(reason)));
        };
        // An index that SQLite makes for a table has no text.
        if found.is_none() && text.is_some_and(|text| !kind.has(&text)) {
            found = Some(plain(&row.get::<_, String>(1).unwrap_or_default(), NAME_MAX));
        }
    }
    Ok(found)
}

/// A file's name with an option, as SQLite takes it.
pub fn uri(path: &Path, option: &str) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri.push('?');
    uri.push_str(option);
    uri
}

/// A file may be made to hold views and triggers that no store of ours has.
fn harden(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.pragma_update(None, "hard_heap_limit", HEAP_MAX)
}

/// Refuses values that are longer than any of ours.
pub fn limit_values(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX).map(drop)
}

fn prepare(connection: &mut Connection, busy: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(busy)?;
    harden(connection)?;
    connection.set_prepared_statement_cache_capacity(32);
    if owner(connection)?.version == 0 {
        // This can only be chosen before the first table is there.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    // The log makes a commit one write without waiting for the disk. What a killed process
    // committed is there; after a power failure the last commits may be missing, no more.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_MAX)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    connection.pragma_update(None, "foreign_keys", true)
}

fn not_ours(path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::Foreign { path: path.into() },
        _ => Error::Open { path: path.into(), source: error },
    }
}

/// Whose file it is, the version of its tables, and how many tables and indexes there are.
#[derive(PartialEq, Eq)]
struct Owner {
    application_id: i32,
    version: i64,
    tables: i64,
}

impl Owner {
    /// A file to which nothing was written yet.
    const NOBODY: Owner = Owner { application_id: 0, version: 0, tables: 0 };
}

/// All of it as it was at one moment: in one statement.
fn owner(connection: &Connection) -> rusqlite::Result<Owner> {
    let text = "SELECT (SELECT count(*) FROM sqlite_schema), application_id, user_version \
                FROM pragma_application_id, pragma_user_version";
    connection.query_row(text, [], |row| {
        Ok(Owner { tables: row.get(0)?, application_id: row.get(1)?, version: row.get(2)? })
    })
}

fn check_version(path: &Path, version: i64, kind: &Kind) -> Result<(), Error> {
    if (0..=kind.version()).contains(&version) {
        return Ok(());
    }
    Err(Error::Newer { path: path.into(), found: version, known: kind.version() })
}

/// Returns the version of a file that is of this kind, or is nobody's yet.
fn check_owner(connection: &Connection, path: &Path, kind: &Kind) -> Result<i64, Error> {
    let failed = |source| Error::Open { path: path.into(), source };
    let owner = owner(connection).map_err(failed)?;
    if owner.application_id != kind.application_id && owner != Owner::NOBODY {
        return Err(Error::Foreign { path: path.into() });
    }
    check_version(path, owner.version, kind)?;
    Ok(owner.version)
}

/// Carries out all migrations that are missing, in one transaction: a process that is killed
/// meanwhile leaves the file as it was.
fn bring_up_to_date(
    connection: &mut Connection,
    path: &Path,
    kind: &Kind,
    version: i64,
) -> Result<(), Error> {
    let failed = |source| Error::Open { path: path.into(), source };
    let missing = &kind.migrations[usize::try_from(version).unwrap_or(0)..];
    if missing.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction().map_err(failed)?;
    for migration in missing {
        transaction.execute_batch(migration).map_err(failed)?;
    }
    transaction
        .pragma_update(None, "application_id", kind.application_id)
        .and_then(|()| transaction.pragma_update(None, "user_version", kind.version()))
        .and_then(|()| transaction.commit())
        .map_err(failed)
}

#[cfg(test)]
mod tests;
