//! Errors in a question.

/// Reason why a question cannot be answered. Quoted texts are truncated, and safe for a terminal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A text is not a time.
    #[error(
        "Invalid time {0:?}: use 14:03, 14:03:20, \"2026-11-21 14:03\", \
         2026-11-21T14:03:20+01:00 or \"5m ago\""
    )]
    Time(String),
    /// A text is not a length of time.
    #[error("Invalid time span {0:?}: use 90s, 5m, 1h, 1h30m, 2d or 1w")]
    Span(String),
    /// A guest that is not in the journal, with the nearest names in the journal.
    #[error("The journal contains no guest {text}{}", offered(nearest))]
    Unknown {
        /// Requested guest.
        text: String,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
}

fn offered(nearest: &[String]) -> String {
    match nearest {
        [] => ": the journal contains no guests yet".to_owned(),
        names => {
            let names = names.join(", ");
            format!("; the nearest names are {names} (`*` stands for any text)")
        }
    }
}

/// Cuts a text to the maximum length quoted in an error.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}
