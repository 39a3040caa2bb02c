//! What can go wrong while a kernel file is read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use counters::Counter;

/// A reading that failed. Each names the file that it is about.
#[derive(Debug)]
pub enum Error {
    /// The file could not be opened or read.
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file is longer than any kernel file that is read here can be.
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound that it passed.
        limit_bytes: usize,
    },
    /// The file does not read as the kernel writes it.
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// This kernel does not have a counter that was asked for.
    NoCounter {
        /// The counter.
        counter: Counter,
        /// The file that it would stand in.
        path: PathBuf,
    },
    /// The row to fill has not one place for each wanted counter: a mistake of
    /// the caller.
    RowWidth {
        /// How many counters are read.
        wanted: usize,
        /// How many places the row has.
        given: usize,
    },
}

impl Error {
    /// The file that the error is about.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read { path, .. } => write!(f, "Cannot read {}", path.display()),
            Error::TooLarge { path, limit_bytes } => {
                write!(f, "{} is longer than {limit_bytes} bytes", path.display())
            }
            Error::Malformed { path, line, what } => {
                write!(f, "Line {line} of {}: {what}", path.display())
            }
            Error::NoCounter { counter, path } => {
                write!(f, "This kernel has no {counter} in {}", path.display())
            }
            Error::RowWidth { wanted, given } => {
                write!(f, "A row of {given} numbers was given for {wanted} counters")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}
