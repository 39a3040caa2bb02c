//! Errors of the screens.

use std::io;
use std::path::PathBuf;

/// Error of a request to the manager.
pub type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// An error of the screens.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request to the manager failed.
    #[error(transparent)]
    Manager(#[from] Trouble),
    /// The manager's response does not match the request.
    #[error("The manager's response does not match the request: check the manager's version")]
    Unexpected,
    /// The terminal or its signals are not available.
    #[error("{what}")]
    Terminal {
        /// Description of the failed action.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// A recording or a journal cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A time is invalid.
    #[error(transparent)]
    Time(#[from] why::Error),
    /// A recording has no finished minute yet.
    #[error("Nothing is recorded in {} yet: wait until the first minute has passed", .0.display())]
    Nothing(PathBuf),
    /// A file of a recording is empty.
    #[error("The recording {} is empty", .0.display())]
    Empty(PathBuf),
    /// A time is outside of a recording.
    #[error("Nothing is recorded at {at}: the recording {} covers {from} to {to}", path.display())]
    Outside {
        /// Requested time.
        at: String,
        /// Path of the recording.
        path: PathBuf,
        /// Start of the recording.
        from: String,
        /// End of the recording.
        to: String,
    },
    /// A step length is invalid.
    #[error(
        "--step must be a multiple of 60 seconds, such as 300, or 1 to 59 seconds if the recording \
         has samples of single seconds"
    )]
    Step,
    /// A file is missing.
    #[error("There is no {}: {HELP}", .0.display())]
    Missing(PathBuf),
    /// A file is not a recording.
    #[error("{} is not a recording: {HELP}", .0.display())]
    NoRecording(PathBuf),
}

const HELP: &str = "name a directory of recordings, or a file in it such as 2026-11-21.db";

/// Returns a function for `map_err` that names the failed action.
pub(crate) fn failed(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Terminal { what, source }
}
