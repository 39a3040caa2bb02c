//! What can be wrong with how a source of guests was asked for.

use std::fmt;

/// Everything that this crate objects to. What goes wrong later is an event and no error: a
/// source that finds nothing today may find something tomorrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A pattern for sockets that means nothing.
    Pattern {
        /// The pattern.
        pattern: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Pattern { pattern } => write!(
                f,
                "Pattern \"{pattern}\" is not an absolute path such as /run/guests/*.qmp, \
                 without empty parts, \".\" and \"..\""
            ),
        }
    }
}

impl std::error::Error for Error {}
