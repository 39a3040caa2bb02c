//! What can go wrong with the screens.

use std::io;
use std::path::PathBuf;

/// The error of a question to the manager.
pub type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// Screens that cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The manager could not be asked.
    #[error(transparent)]
    Manager(#[from] Trouble),
    /// The manager answered something else.
    #[error("The manager's answer is to another question: is it of another version?")]
    Unexpected,
    /// The terminal, or what listens to it, cannot be had.
    #[error("{what}")]
    Terminal {
        /// What was tried.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A recording or a journal cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A time is none.
    #[error(transparent)]
    Time(#[from] why::Error),
    /// A recording has nothing in it yet.
    #[error("Nothing is recorded in {} yet: the first minute has to be over", .0.display())]
    Nothing(PathBuf),
    /// A file of a recording has nothing in it.
    #[error("{} has nothing in it", .0.display())]
    Empty(PathBuf),
    /// A time that is not in a recording.
    #[error("Nothing is recorded at {at}: {} goes from {from} to {to}", path.display())]
    Outside {
        /// The time.
        at: String,
        /// The recording.
        path: PathBuf,
        /// When it begins.
        from: String,
        /// When it ends.
        to: String,
    },
    /// A length that no step has.
    #[error(
        "--step is from 1 to 59 seconds, where samples of single seconds are left, or whole \
         minutes: 60, 300, 900"
    )]
    Step,
    /// A file that is not there.
    #[error("There is no {}: {HELP}", .0.display())]
    Missing(PathBuf),
    /// A file that is something else.
    #[error("{} is no recording: {HELP}", .0.display())]
    NoRecording(PathBuf),
}

const HELP: &str = "name a directory of recordings, or a file in it such as 2026-11-21.db";

/// Names what was tried, for `map_err`.
pub(crate) fn failed(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Terminal { what, source }
}
