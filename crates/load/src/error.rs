//! What keeps a load from being put on anything.

use std::fmt;
use std::io;

/// Everything that this crate can fail at as a whole. A request that fails is no error here: it is
/// counted ([`crate::Failure`]), and the load goes on.
#[derive(Debug)]
pub enum Error {
    /// A target cannot be understood.
    Target {
        /// As it was given.
        text: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A plan asks for what cannot be done.
    Plan {
        /// What of it.
        field: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A job asks for what cannot be done in a guest.
    Job {
        /// What of it.
        field: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The connections could not be waited for.
    Poll(io::Error),
    /// A histogram could not be made.
    Histogram(hdrhistogram::CreationError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Target { text, reason } => write!(f, "Target {text:?}: {reason}"),
            Error::Plan { field, reason } => write!(f, "The load's {field}: {reason}"),
            Error::Job { field, reason } => write!(f, "The job's {field}: {reason}"),
            Error::Poll(_) => f.write_str("Cannot wait for the connections"),
            Error::Histogram(_) => f.write_str("Cannot make a histogram"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Poll(source) => Some(source),
            Error::Histogram(source) => Some(source),
            Error::Target { .. } | Error::Plan { .. } | Error::Job { .. } => None,
        }
    }
}
