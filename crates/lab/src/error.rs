//! What can go wrong with an experiment or with its results.

use std::io;
use std::path::PathBuf;

/// Why something about an experiment cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("No experiment is called {name:?}; there are {known}")]
    Unknown {
        name: String,
        /// All names, for the message.
        known: String,
    },
    #[error("Cannot {what} {path}")]
    File {
        /// What was to be done: "read", "write".
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{path} is not a result of an experiment: {reason}")]
    NotAResult { path: PathBuf, reason: String },
    #[error("Interrupted")]
    Interrupted,
    #[error("{0}")]
    Failed(String),
}
