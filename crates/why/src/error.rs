//! What can go wrong with a question.

/// A question that cannot be answered. A text is shown cut, and safe for a terminal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A text that names no time.
    #[error(
        "{0:?} is no time: write 14:03, 14:03:20, \"2026-11-21 14:03\", \
         2026-11-21T14:03:20+01:00 or \"5m ago\""
    )]
    Time(String),
    /// A text that is no length of time.
    #[error("{0:?} is no time span: write 90s, 5m, 1h, 1h30m, 2d or 1w")]
    Span(String),
    /// A guest that the journal does not know, with the nearest names that it does.
    #[error("The journal knows no guest {text}{}", offered(nearest))]
    Unknown {
        /// What was asked for.
        text: String,
        /// Names that are like it.
        nearest: Vec<String>,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
}

fn offered(nearest: &[String]) -> String {
    match nearest {
        [] => ": it knows none yet".to_owned(),
        names => {
            let names = names.join(", ");
            format!("; the nearest names are {names} (`*` stands for any text)")
        }
    }
}

/// As much of a text as an error repeats.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}
