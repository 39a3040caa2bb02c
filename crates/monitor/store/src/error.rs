//! Errors of a store.

use std::io;
use std::path::PathBuf;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Cannot use {path}")]
    File { path: PathBuf, source: io::Error },
    #[error("{path} is no file but a directory, a pipe or a device: move it away")]
    NoFile { path: PathBuf },
    #[error(
        "{path} is not as `pinhead host` writes it: `{name}` was added or changed in it. Take that \
         away with sqlite3, or name another file"
    )]
    Altered { path: PathBuf, name: String },
    #[error("Cannot open {path} as a database")]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("{path} is no file of pinhead's: name what `pinhead host` writes")]
    Foreign { path: PathBuf },
    #[error(
        "{path} has version {found} and this pinhead knows versions up to {known}: use the \
                 pinhead that wrote it, or a later one"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    /// A statement failed, for example because of a full disk, a lock or a damaged file.
    #[error("The store cannot {action}")]
    Statement { action: &'static str, source: rusqlite::Error },
    #[error("Row {id} of {table}: {reason}")]
    Row { table: &'static str, id: i64, reason: String },
    #[error("This time cannot be asked for: {reason}")]
    Span { reason: &'static str },
    #[error("This is not answered: {reason}")]
    Refused { reason: &'static str },
    #[error("SQLite cannot answer this")]
    Sql { source: rusqlite::Error },
    #[error("{asked} guests at once are too many: ask for at most {most}")]
    TooManyGuests { asked: usize, most: usize },
}

/// Returns a function for `map_err` that names the failed action.
pub(crate) fn cannot(action: &'static str) -> impl Fn(rusqlite::Error) -> Error {
    move |source| Error::Statement { action, source }
}
