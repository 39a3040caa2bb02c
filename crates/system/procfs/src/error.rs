//! Errors of reading a kernel file.

use std::io;
use std::path::{Path, PathBuf};

use model::counters::Counter;

/// A failed reading, with the file concerned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is longer than {limit_bytes} bytes")]
    TooLarge { path: PathBuf, limit_bytes: usize },
    #[error("Line {line} of {path}: {what}")]
    Malformed { path: PathBuf, line: usize, what: &'static str },
    #[error("This kernel has no {counter} in {path}")]
    NoCounter { counter: Counter, path: PathBuf },
    /// The row's length differs from the number of wanted counters, which is a mistake of the
    /// caller.
    #[error("A row of {given} numbers was given for {wanted} counters")]
    RowWidth { wanted: usize, given: usize },
}

impl Error {
    /// Returns the file that the error is about.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Read { path, .. }
            | Error::TooLarge { path, .. }
            | Error::Malformed { path, .. }
            | Error::NoCounter { path, .. } => Some(path),
            Error::RowWidth { .. } => None,
        }
    }
}
