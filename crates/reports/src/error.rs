//! What can be wrong with a question for a report.

use std::fmt;

/// A report that cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// No report has that name.
    UnknownReport {
        /// The name.
        name: String,
    },
    /// More intervals than a report may have.
    TooManyIntervals {
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A pattern that is too long.
    LongPattern {
        /// Its length in bytes.
        length: usize,
        /// What is allowed.
        most: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UnknownReport { name } => {
                let names: Vec<&str> = crate::REPORTS.iter().map(|report| report.name).collect();
                let name: String = name.escape_debug().take(40).collect();
                write!(
                    f,
                    "No report is called {name}: there are {}, and their old names, such as \
                     ESAUSR2",
                    names.join(" ")
                )
            }
            Error::TooManyIntervals { count, most } => {
                write!(
                    f,
                    "{count} intervals are too many for a report, which may have {most}: ask for \
                     longer ones with --interval"
                )
            }
            Error::LongPattern { length, most } => {
                write!(f, "A pattern of {length} bytes is too long: {most} are allowed")
            }
        }
    }
}

impl std::error::Error for Error {}
