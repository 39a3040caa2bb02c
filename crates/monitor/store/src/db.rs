//! Opening of a SQLite file: check of its owner, check of its version, and migration.
//!
//! A file carries an `application_id`, so that databases of other programs are not changed.
//! `user_version` is the version of the file's tables. A kind of store is a list of migrations. The
//! migration with index n leads from version n to n + 1, and never changes once it is published.

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

/// Maximum time that a statement waits for another process's lock. A longer wait would delay the
/// manager. Data that a flush cannot write is written by a later flush.
pub const BUSY: Duration = Duration::from_millis(50);
/// Maximum time that a reader waits. Users can wait longer than the manager.
pub const BUSY_READER: Duration = Duration::from_millis(2_000);
/// Page cache in KiB, negative as SQLite requires. All pages that a batch changes must fit. The
/// index by guest alone takes up to a thousand pages, one for each guest.
const CACHE: i64 = -16_384;
/// Length in pages of 4 KiB at which the write-ahead log is checkpointed. A long log costs less,
/// because each checkpoint waits for the disk and writes the same pages again.
const LOG_PAGES: i64 = 4_096;
/// Length in bytes to which the log is truncated after a checkpoint.
const LOG_MAX: i64 = 32 << 20;
/// Maximum memory of SQLite in a process, in bytes. A journal in memory takes 200 MiB, and the
/// caches of a manager's five files take 80 MiB.
const HEAP_MAX: i64 = 512 << 20;
/// Maximum length of a value that a reader accepts, in bytes. One minute of samples of a thousand
/// guests that all change takes 30 MB before compression.
const VALUE_MAX: i32 = 32 << 20;
/// Maximum number of pages returned to the file system at a time.
const VACUUM_PAGES: i64 = 1_024;
/// Maximum number of one-minute blocks removed per minute. If the clock is far ahead for an hour,
/// at most about a day of blocks is lost.
const PRUNE_MAX: i64 = 25;
/// Suffix of an unfinished copy's name.
pub const COPY: &str = ".copying";
/// Suffixes of the files that SQLite opens with a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Tables that SQLite itself creates for `AUTOINCREMENT`, and when a user runs `ANALYZE` or `PRAGMA
/// optimize`.
const SQLITES_OWN: [&str; 3] = [
    "CREATE TABLE sqlite_sequence(name,seq)",
    "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
];
/// Mode of a new file: writable for its owner and readable for its group, because the file contains
/// guests' names.
const MODE: u32 = 0o640;

/// A kind of store.
pub struct Kind {
    /// Application id that distinguishes the files from other databases.
    pub application_id: i32,
    /// Migrations: the migration with index n leads from version n to n + 1.
    pub migrations: &'static [&'static str],
}

impl Kind {
    fn version(&self) -> i64 {
        self.migrations.len() as i64
    }

    /// Returns true if a file of this kind may contain this table or index. Tables of a later
    /// version may have further integer columns.
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

/// Returns true if the rest of a table's definition contains only further integer columns.
fn has_only_columns(text: &str) -> bool {
    let is_name = |name: &str| name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    let is_column = |column: &str| column.strip_suffix(" INTEGER").is_some_and(is_name);
    let columns = text.strip_suffix(')').and_then(|text| text.strip_prefix(", "));
    columns.is_some_and(|columns| columns.split(", ").all(is_column))
}

/// Opens a file for writing, and creates it if it is missing.
pub fn open(path: &Path, kind: &Kind) -> Result<Connection, Error> {
    check_files(path)?;
    // A copy lies next to the real file, even if `path` is a symlink.
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

/// Opens a file for reading.
pub fn open_read_only(path: &Path, kind: &Kind) -> Result<Connection, Error> {
    // A file without tables is empty, or its writer has not created its tables yet.
    open_begun(path, kind, BUSY_READER)?.ok_or_else(|| Error::Foreign { path: path.into() })
}

/// Opens a file for reading, or returns `None` if it has no tables. A writer that was killed during
/// creation leaves such a file.
fn open_begun(path: &Path, kind: &Kind, wait: Duration) -> Result<Option<Connection>, Error> {
    check_files(path)?;
    // This open reports the cause of a failure. SQLite would only report that it cannot open the
    // file.
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

/// Refuses a pipe or a device in place of a database file or one of its companions. Opening a pipe
/// would block until another process opens the pipe for writing.
fn check_files(path: &Path) -> Result<(), Error> {
    let beside = BESIDE.map(|ending| beside(path, ending));
    for path in std::iter::once(path).chain(beside.iter().map(PathBuf::as_path)) {
        match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => return Err(Error::NoFile { path: path.into() }),
            // The caller reports the error when it opens the file.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Removes an unfinished copy of a file, and the copy's companion files.
pub fn clean(path: &Path) {
    for ending in ["", "-wal", "-shm", "-journal"] {
        // If the removal fails, the remaining file blocks the next copy, which reports the error.
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

/// Returns the path with a suffix appended to the file name.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Opens a file for reading, or returns `None` if it is missing or has no tables. A statement waits
/// at most `wait` for another process's lock.
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

/// Writes the log of a file into the file, and checks the file. No companion file remains.
pub fn take_log_over(path: &Path) -> Result<(), Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let found = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.pragma_update(None, "journal_mode", "DELETE")?;
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    });
    match found.map_err(|source| Error::Open { path: path.into(), source })?.as_str() {
        "ok" => Ok(()),
        fault => {
            let source = std::io::Error::new(ErrorKind::InvalidData, plain(fault, NAME_MAX));
            Err(Error::File { path: path.into(), source })
        }
    }
}

/// Size of a database's file, in pages.
pub struct Size {
    pages: i64,
    unused: i64,
    page_bytes: i64,
}

impl Size {
    /// Returns the size of an open database.
    pub fn of(connection: &Connection) -> rusqlite::Result<Size> {
        let ask = |name| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
        let (pages, unused) = (ask("page_count")?, ask("freelist_count")?);
        Ok(Size { pages, unused, page_bytes: ask("page_size")? })
    }

    /// Returns the size without unused pages, in bytes.
    pub fn used_bytes(&self) -> u64 {
        ((self.pages - self.unused).max(0) * self.page_bytes).unsigned_abs()
    }
}

/// Returns unused pages to the file system.
pub fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    // Each step of this statement gives one unused page back to the file system.
    let mut statement =
        connection.prepare(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Removes blocks that ended before a time, and the oldest blocks above the limit in bytes. The
/// number of removed blocks is bounded per call.
pub fn prune_blocks(
    connection: &Connection,
    table: &str,
    key: &str,
    before_ms: i64,
    most_bytes: u64,
) -> rusqlite::Result<()> {
    let delete = |which: &str| {
        format!("DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} {which})")
    };
    let old = delete(&format!("WHERE to_ms < ? ORDER BY {key} LIMIT ?"));
    connection.execute(&old, [before_ms, PRUNE_MAX])?;
    let size = Size::of(connection)?;
    if size.used_bytes() > most_bytes {
        // A whole hour is removed at a time, rather than one block in every minute.
        connection.execute(&delete(&format!("ORDER BY {key} LIMIT 60")), [])?;
    }
    if size.unused > VACUUM_PAGES || (size.pages * size.page_bytes).unsigned_abs() > most_bytes {
        give_back(connection)?;
    }
    Ok(())
}

/// Executes a statement, which stays cached.
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

/// Opens a database in memory.
pub fn in_memory(kind: &Kind) -> Result<Connection, Error> {
    let path = Path::new(":memory:");
    let failed = |source| Error::Open { path: path.into(), source };
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    prepare(&mut connection, BUSY).map_err(failed)?;
    bring_up_to_date(&mut connection, path, kind, 0)?;
    Ok(connection)
}

/// Returns true if an error comes from a missing log. A user without write access to the directory
/// cannot create the log's index. Without a log no process has the file open for writing, so the
/// file can be read without an index.
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

/// Prepares a connection for reading. Returns the connection, and the name of a foreign object in
/// the file, if there is one.
fn looked_at(
    mut connection: Connection,
    kind: &Kind,
) -> rusqlite::Result<(Connection, Option<String>)> {
    harden(&mut connection)?;
    limit_values(&connection)?;
    let stranger = stranger(&connection, "main", kind)?;
    Ok((connection, stranger))
}

/// Returns the name of the first table, index, view or trigger that does not belong to this kind of
/// file. Such an object can expand a small file to gigabytes, by a computed column or a default
/// value.
///
/// A definition that is not valid text is refused, too. The SQLite library would abort if it had to
/// return the name of a column from such a definition.
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
            let reason = "the description of one of its tables is not text".to_owned();
            return Err(rusqlite::Error::SqliteFailure(corrupt, Some(reason)));
        };
        // An index that SQLite creates for a table has no definition.
        if found.is_none() && text.is_some_and(|text| !kind.has(&text)) {
            found = Some(plain(&row.get::<_, String>(1).unwrap_or_default(), NAME_MAX));
        }
    }
    Ok(found)
}

/// Returns a file's URI with an option, in SQLite's syntax.
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

/// Disables views and triggers, which no store has but a hostile file may contain.
fn harden(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.pragma_update(None, "hard_heap_limit", HEAP_MAX)
}

/// Refuses values longer than any that pinhead writes.
pub fn limit_values(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX).map(drop)
}

fn prepare(connection: &mut Connection, busy: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(busy)?;
    harden(connection)?;
    connection.set_prepared_statement_cache_capacity(32);
    if owner(connection)?.version == 0 {
        // The vacuum mode can only be chosen before the first table exists.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    // With the write-ahead log, a commit is one write without waiting for the disk. Commits of a
    // killed process survive. A power failure may lose the last commits, but nothing else.
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

/// Owner of a file, version of its tables, and number of tables and indexes.
#[derive(PartialEq, Eq)]
struct Owner {
    application_id: i32,
    version: i64,
    tables: i64,
}

impl Owner {
    /// Owner of a file to which pinhead has not written yet.
    const NOBODY: Owner = Owner { application_id: 0, version: 0, tables: 0 };
}

/// Reads all fields in one statement, so that they belong to the same moment.
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

/// Returns the version of a file that is of this kind or has no owner yet.
fn check_owner(connection: &Connection, path: &Path, kind: &Kind) -> Result<i64, Error> {
    let failed = |source| Error::Open { path: path.into(), source };
    let owner = owner(connection).map_err(failed)?;
    if owner.application_id != kind.application_id && owner != Owner::NOBODY {
        return Err(Error::Foreign { path: path.into() });
    }
    check_version(path, owner.version, kind)?;
    Ok(owner.version)
}

/// Runs all missing migrations in one transaction, so that a kill during the migration leaves the
/// file unchanged.
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
