//! Errors of `pinhead-web`, for the person who started it.

use std::io;

/// A reason why the pages cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refuses its settings, or cannot go on.
    #[error(transparent)]
    Web(#[from] ::web::Error),
    /// The engine's address is none.
    #[error(transparent)]
    Metrics(#[from] metrics::Error),
    /// The password cannot be read.
    #[error("Cannot read the password")]
    Unread(#[source] io::Error),
    /// The password was typed in two ways.
    #[error("Nothing was written: the second was another")]
    Mismatch,
}
