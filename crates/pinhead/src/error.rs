//! What can go wrong in a command, for the person who typed it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A command that cannot be carried out.
#[derive(Debug)]
pub enum Error {
    /// A file cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line of a file is not as it should be.
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// A kernel's files cannot be used.
    Kernel(kernfs::Error),
    /// A guest, or what it needs, cannot be had.
    Farm(farm::Error),
    /// A farm's file is not taken.
    FarmFile(farm::config::LoadError),
    /// A journal cannot be used.
    Store(store::Error),
    /// The manager cannot start, or go on.
    Host(host::Error),
    /// The manager could not be asked.
    Control(host::control::Error),
    /// A load cannot be put on.
    Load(load::Error),
    /// An experiment, or a result of one.
    Lab(lab::Error),
    /// Anything else, in a sentence that says what would be right.
    Message(String),
}

impl Error {
    pub(crate) fn read(path: &Path, source: io::Error) -> Error {
        Error::Read { path: path.into(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read { path, .. } => write!(f, "Cannot read {}", path.display()),
            Error::Line { path, line, column, message } => {
                write!(f, "{}:{line}:{column}: {message}", path.display())
            }
            Error::Kernel(e) => e.fmt(f),
            Error::Farm(e) => e.fmt(f),
            Error::FarmFile(e) => e.fmt(f),
            Error::Store(e) => e.fmt(f),
            Error::Host(e) => e.fmt(f),
            Error::Control(e) => e.fmt(f),
            Error::Load(e) => e.fmt(f),
            Error::Lab(e) => e.fmt(f),
            Error::Message(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read { source, .. } => Some(source),
            // These already speak for themselves: only what is below them is news.
            Error::Kernel(e) => e.source(),
            Error::Farm(e) => e.source(),
            Error::FarmFile(e) => e.source(),
            Error::Store(e) => e.source(),
            Error::Host(e) => e.source(),
            Error::Control(e) => e.source(),
            Error::Load(e) => e.source(),
            Error::Lab(e) => e.source(),
            Error::Line { .. } | Error::Message(_) => None,
        }
    }
}

impl From<kernfs::Error> for Error {
    fn from(error: kernfs::Error) -> Error {
        Error::Kernel(error)
    }
}

impl From<farm::Error> for Error {
    fn from(error: farm::Error) -> Error {
        Error::Farm(error)
    }
}

impl From<load::Error> for Error {
    fn from(error: load::Error) -> Error {
        Error::Load(error)
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Error {
        Error::Store(error)
    }
}

impl From<lab::Error> for Error {
    fn from(error: lab::Error) -> Error {
        Error::Lab(error)
    }
}
