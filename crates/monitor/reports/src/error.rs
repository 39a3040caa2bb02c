//! Errors in a request for a report.

/// A request for a report that cannot be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "No report is called {}: {hint}",
        .name.escape_debug().take(40).collect::<String>()
    )]
    UnknownReport { name: String, hint: String },
    #[error(
        "{count} intervals are too many: a report may have at most {most}; choose longer intervals \
         with --interval"
    )]
    TooManyIntervals { count: usize, most: usize },
    /// The time has no data.
    #[error("Nothing is recorded in this time. {hint}")]
    NothingRecorded { hint: String },
    /// The selection matches no guest.
    #[error("{what}. {hint}")]
    NoGuest { what: String, hint: String },
    #[error("A pattern of {length} bytes is too long: {most} are allowed")]
    LongPattern { length: usize, most: usize },
}
