//! Errors of experiments and of their results.

use std::io;
use std::path::{Path, PathBuf};

/// An error of an experiment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Cannot {what} {path}")]
    File {
        /// The failed operation: "read", "write".
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{path} is not a result of an experiment: {reason}")]
    NotAResult { path: PathBuf, reason: String },
    #[error(
        "{path} cannot be resumed: {reason}; omit `--resume`, or move this file away to resume \
         an earlier result"
    )]
    NotResumed { path: PathBuf, reason: String },
    #[error("The guest sizes in {path} cannot be used: {reason}")]
    NotTakenOver { path: PathBuf, reason: String },
    #[error(transparent)]
    Load(#[from] crate::load::Error),
    #[error(transparent)]
    Job(#[from] crate::load::job::JobFailure),
    #[error(transparent)]
    Manager(#[from] manager::control::Error),
    #[error("Interrupted")]
    Interrupted,
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Returns a constructor of an error on reading, writing or creating a file.
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::File { what, path: path.to_path_buf(), source }
    }
}
