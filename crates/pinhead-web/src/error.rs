//! Errors of `pinhead-web`, with messages for its user.

use std::io;

/// A reason why the pages cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refuses its settings, or cannot continue.
    #[error(transparent)]
    Web(#[from] ::web::Error),
    /// The metrics server's address is invalid.
    #[error(transparent)]
    Metrics(#[from] metrics::Error),
    /// The password cannot be read.
    #[error("Cannot read the password")]
    Unread(#[source] io::Error),
    /// The two typed passwords differ.
    #[error("Nothing was written: the two passwords differ")]
    Mismatch,
}
