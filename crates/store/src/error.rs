//! What can go wrong with a store.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Everything that a store can fail at.
#[derive(Debug)]
pub enum Error {
    /// The file could not be made or looked at.
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be opened as a database.
    Open {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file is a database of something else.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a later pinhead.
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        found: i64,
        /// The latest version that is known here.
        known: i64,
    },
    /// A statement could not be carried out: a full disk, a lock, a damaged file.
    Statement {
        /// What was tried, as a verb with its object.
        action: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A row holds what no version of pinhead writes.
    Row {
        /// Its table.
        table: &'static str,
        /// Its number.
        id: i64,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// A question about recordings that cannot be answered so.
    Span {
        /// What is wrong with it, and what would be right.
        reason: &'static str,
    },
    /// A question in SQL that is refused.
    Refused {
        /// Why, and what would be right.
        reason: &'static str,
    },
    /// A question in SQL that SQLite cannot answer.
    Sql {
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A question names more guests than one statement takes.
    TooManyGuests {
        /// So many.
        asked: usize,
        /// So many may be asked for at once.
        most: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File { path, .. } => write!(f, "Cannot use {}", path.display()),
            Error::Open { path, .. } => {
                write!(f, "Cannot open {} as a database", path.display())
            }
            Error::Foreign { path } => write!(
                f,
                "{} is no file of pinhead's: name what `pinhead host` writes",
                path.display()
            ),
            Error::Newer { path, found, known } => write!(
                f,
                "{} has version {found} and this pinhead knows versions up to {known}: use the \
                 pinhead that wrote it, or a later one",
                path.display()
            ),
            Error::Statement { action, .. } => write!(f, "The store cannot {action}"),
            Error::Row { table, id, reason } => write!(f, "Row {id} of {table}: {reason}"),
            Error::Span { reason } => write!(f, "This time cannot be asked for: {reason}"),
            Error::Refused { reason } => write!(f, "This is not answered: {reason}"),
            Error::Sql { .. } => write!(f, "SQLite cannot answer this"),
            Error::TooManyGuests { asked, most } => {
                write!(f, "{asked} guests at once are too many: ask for at most {most}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::File { source, .. } => Some(source),
            Error::Open { source, .. }
            | Error::Statement { source, .. }
            | Error::Sql { source } => Some(source),
            Error::Foreign { .. }
            | Error::Newer { .. }
            | Error::Row { .. }
            | Error::Span { .. }
            | Error::Refused { .. }
            | Error::TooManyGuests { .. } => None,
        }
    }
}

/// Names what was tried, for `map_err`.
pub(crate) fn cannot(action: &'static str) -> impl Fn(rusqlite::Error) -> Error {
    move |source| Error::Statement { action, source }
}
