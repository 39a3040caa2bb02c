//! What can go wrong while something is plugged.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use counters::Pages;

/// An act or a look that failed. Each names its file, where it has one.
#[derive(Debug)]
pub enum Error {
    /// The file could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file could not be written.
    Write {
        /// The file.
        path: PathBuf,
        /// What was to be written into it, as far as one word says it.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file does not read as the kernel writes it.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The undo record is damaged, or written by something else.
    BadRecord {
        /// The record.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The undo record was written before this kernel was booted: what it would
    /// restore has gone with the boot that it speaks of.
    ForeignRecord {
        /// The record.
        path: PathBuf,
        /// The boot that it belongs to.
        boot_id: String,
    },
    /// The CPU stays online: it is the last one.
    LastCpu {
        /// The CPU.
        cpu: u32,
    },
    /// Whoever has the pool did not take a request. For pools that are no file.
    Refused {
        /// What was asked for.
        pages: Pages,
        /// Why it was not taken.
        why: String,
    },
}

impl Error {
    /// The file that the error is about.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Read { path, .. }
            | Error::Write { path, .. }
            | Error::Malformed { path, .. }
            | Error::BadRecord { path, .. }
            | Error::ForeignRecord { path, .. } => Some(path),
            Error::LastCpu { .. } | Error::Refused { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read { path, .. } => write!(f, "Cannot read {}", path.display()),
            Error::Write { path, value, .. } => {
                write!(f, "Cannot write {value} to {}", path.display())
            }
            Error::Malformed { path, what } => write!(f, "{} {what}", path.display()),
            Error::BadRecord { path, line, what } => {
                write!(f, "Line {line} of the undo record {} {what}", path.display())
            }
            Error::ForeignRecord { path, boot_id } => {
                write!(f, "The undo record {} is of another boot ({boot_id})", path.display())
            }
            Error::LastCpu { cpu } => {
                write!(f, "CPU {cpu} stays online: no other CPU is")
            }
            Error::Refused { pages, why } => {
                write!(f, "A pool of {pages} was refused: {}", why.escape_debug())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read { source, .. } | Error::Write { source, .. } => Some(source),
            _ => None,
        }
    }
}
