//! Errors of a store.

use std::io;
use std::path::PathBuf;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Cannot use {path}")]
    File { path: PathBuf, source: io::Error },
    #[error("{path} is a directory, a pipe or a device, not a file: move it away")]
    NoFile { path: PathBuf },
    #[error(
        "{path} contains `{name}`, which `pinhead host` did not write: remove `{name}` with \
         sqlite3, or use another file"
    )]
    Altered { path: PathBuf, name: String },
    #[error("Cannot open {path} as a database")]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("{path} is not a file of pinhead: use a file that `pinhead host` writes")]
    Foreign { path: PathBuf },
    #[error(
        "{path} has format version {found}, but this pinhead reads versions up to {known}: use \
         the version of pinhead that wrote the file, or a later version"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    /// The recordings are in a directory below the named one.
    #[error("The recordings are in {}, not in {}", below.display(), path.display())]
    Below { path: PathBuf, below: PathBuf },
    /// A statement failed, for example because of a full disk, a lock or a damaged file.
    #[error("The store cannot {action}")]
    Statement { action: &'static str, source: rusqlite::Error },
    #[error("Row {id} of {table}: {reason}")]
    Row { table: &'static str, id: i64, reason: String },
    #[error("This time range is invalid: {reason}")]
    Span { reason: &'static str },
    #[error("This query is refused: {reason}")]
    Refused { reason: &'static str },
    #[error("SQLite cannot run this query (`pinhead schema` lists the tables and columns)")]
    Sql { source: rusqlite::Error },
    #[error("{asked} guests in one query are too many: choose at most {most}")]
    TooManyGuests { asked: usize, most: usize },
}

/// Returns a function for `map_err` that names the failed action.
pub(crate) fn cannot(action: &'static str) -> impl Fn(rusqlite::Error) -> Error {
    move |source| Error::Statement { action, source }
}
