//! Errors of replays and sizes.

use base::plain;
use std::path::PathBuf;

/// Maximum width of a name in a message.
const NAME_MAX: usize = 60;

/// Reason why a question cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Recordings or a journal cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A file of settings has errors, listed one per line.
    #[error("{0}")]
    Faults(String),
    /// A file of settings cannot be read.
    #[error(transparent)]
    Settings(settings::LoadError),
    /// An unknown policy.
    #[error(
        "{name} is neither a policy nor a file: use {names}, or a file of the manager's \
         settings"
    )]
    NoPolicy {
        /// The given name.
        name: String,
        /// The known policies.
        names: String,
    },
    /// A file of settings with an operator's rules. Passes do not record the rules' inputs.
    #[error(
        "{path} contains an operator's rules ([policy] rules), which cannot be replayed: they need \
         values that passes do not record"
    )]
    Rules {
        /// The file of settings.
        path: PathBuf,
    },
    /// No passes to replay.
    #[error(
        "This time has no passes, so it cannot be replayed. Passes are kept as long as samples of \
         single seconds, and old versions of `pinhead host` recorded none: choose another time \
         with --from and --to"
    )]
    NoPasses,
    /// The recorded time is too short for an answer.
    #[error(
        "Passes were recorded for only {has} of this time, but {needs} is needed: begin the time \
         earlier with --from, or require less with --enough"
    )]
    TooLittle {
        /// The recorded time.
        has: String,
        /// The needed time.
        needs: String,
    },
    /// No guest of that name.
    #[error("No guest {pattern} was recorded in this time{near}")]
    NoGuest {
        /// The name or pattern.
        pattern: String,
        /// `; did you mean ...?`, or nothing.
        near: String,
    },
    /// Guests of that name that no longer ran at the end.
    #[error("No guest {pattern} ran at the end of this time: end the time earlier with --to")]
    Gone {
        /// The name or pattern.
        pattern: String,
    },
    /// No guest at all.
    #[error("No guest was recorded in this time: choose another time with --from and --to")]
    Nobody,
    /// A time range with more steps than memory allows.
    #[error("the time is longer than the maximum of 200 days: begin the time later")]
    TooLong,
}

impl Error {
    /// Creates the error about a name or pattern of no guest, with the nearest known name.
    pub(crate) fn no_guest<'a>(pattern: &str, known: impl Iterator<Item = &'a str>) -> Error {
        let near = match base::nearest(pattern, known).first() {
            Some(name) => format!("; did you mean {}?", plain(name, NAME_MAX)),
            None => String::new(),
        };
        Error::NoGuest { pattern: plain(pattern, NAME_MAX), near }
    }
}

impl From<settings::LoadError> for Error {
    fn from(error: settings::LoadError) -> Error {
        match error.faults() {
            Some(faults) => Error::Faults(faults),
            None => Error::Settings(error),
        }
    }
}
