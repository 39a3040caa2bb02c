//! Errors of measurements.

use std::io;
use std::path::{Path, PathBuf};
use vm::Scratch;

/// A failed measurement, or an invalid command line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("Cannot use {path}")]
    File { path: PathBuf, source: io::Error },
    #[error("{path} has no {what}")]
    Content { path: PathBuf, what: &'static str },
    #[error("Cannot start {program}")]
    Start { program: PathBuf, source: io::Error },
    #[error("{name} ended while it was measured: {status}; {said}")]
    Ended { name: &'static str, status: String, said: String },
    #[error("Cannot stay on one CPU")]
    Pin(#[source] io::Error),
    #[error("Cannot count the CPUs")]
    Cpus(#[source] pinheadd::plug::Error),
    #[error(transparent)]
    Image(#[from] vm::images::Error),
    #[error(transparent)]
    Guest(#[from] vm::Error),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error("Cannot use recordings")]
    Store(#[source] store::Error),
    #[error("The default preset {0}")]
    Preset(&'static str),
    #[error("Cannot print")]
    Print(#[source] io::Error),
}

impl Error {
    /// Returns the error of an operation on a file.
    pub fn file(path: &Path, source: io::Error) -> Error {
        Error::File { path: path.into(), source }
    }
}

pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|e| Error::file(path, e))
}

/// Makes a directory for the files of a measurement.
pub fn scratch(name: &str) -> Result<Scratch, Error> {
    Scratch::new(&format!("bench-{name}")).map_err(|e| Error::file(&std::env::temp_dir(), e))
}
