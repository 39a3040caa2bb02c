//! Why something could not be measured.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Something that could not be measured, or a command line that cannot be understood.
#[derive(Debug)]
pub enum Error {
    /// The command line or the environment, in a sentence.
    Usage(String),
    /// A file cannot be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the kernel does not have what it should.
    Content {
        /// The file.
        path: PathBuf,
        /// What is not there.
        what: &'static str,
    },
    /// A process cannot be started.
    Start {
        /// Its program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A process ended while it was to be measured.
    Ended {
        /// What it was.
        name: &'static str,
        /// How it ended.
        status: String,
        /// What it said last.
        said: String,
    },
    /// This process cannot be held on one CPU.
    Pin(io::Error),
    /// The CPUs of this machine cannot be counted.
    Cpus(plug::Error),
    /// Recordings cannot be written or read.
    Store(store::Error),
    /// The default preset is not what is expected of it.
    Preset(&'static str),
    /// The answer cannot be printed.
    Print(io::Error),
}

impl Error {
    /// A failure at a file.
    pub fn file(path: &Path, source: io::Error) -> Error {
        Error::File { path: path.into(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(message) => f.write_str(message),
            Error::File { path, .. } => write!(f, "Cannot use {}", path.display()),
            Error::Content { path, what } => write!(f, "{} has no {what}", path.display()),
            Error::Start { program, .. } => write!(f, "Cannot start {}", program.display()),
            Error::Ended { name, status, said } => {
                write!(f, "{name} ended while it was measured: {status}; {said}")
            }
            Error::Pin(_) => f.write_str("Cannot stay on one CPU"),
            Error::Cpus(_) => f.write_str("Cannot count the CPUs"),
            Error::Store(_) => f.write_str("Cannot use recordings"),
            Error::Preset(what) => write!(f, "The default preset {what}"),
            Error::Print(_) => f.write_str("Cannot print"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::File { source, .. } | Error::Start { source, .. } => Some(source),
            Error::Pin(source) | Error::Print(source) => Some(source),
            Error::Cpus(source) => Some(source),
            Error::Store(source) => Some(source),
            Error::Usage(_) | Error::Content { .. } | Error::Ended { .. } | Error::Preset(_) => {
                None
            }
        }
    }
}
