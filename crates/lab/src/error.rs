//! What can go wrong with an experiment or with its results.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why something about an experiment cannot be done.
#[derive(Debug)]
pub enum Error {
    /// There is no experiment of this name.
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A file or directory cannot be read or written.
    File {
        /// What was to be done: "read", "write".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not a result.
    NotAResult {
        /// The file.
        path: PathBuf,
        /// Where, and what would be right.
        reason: String,
    },
    /// Somebody wants it to end.
    Interrupted,
    /// Something of the experiment failed; the sentence says what would be right.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unknown { name } => {
                let known: Vec<&str> = crate::catalog::ALL.iter().map(|one| one.name).collect();
                write!(f, "No experiment is called {name:?}; there are {}", known.join(", "))
            }
            Error::File { what, path, .. } => write!(f, "Cannot {what} {}", path.display()),
            Error::NotAResult { path, reason } => {
                write!(f, "{} is not a result of an experiment: {reason}", path.display())
            }
            Error::Interrupted => f.write_str("Interrupted"),
            Error::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::File { source, .. } => Some(source),
            Error::Unknown { .. }
            | Error::NotAResult { .. }
            | Error::Interrupted
            | Error::Failed(_) => None,
        }
    }
}
