//! Errors of reading recorded data.

use std::path::PathBuf;

/// A reason why recordings or a metrics server provide no data.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The usual directory of recordings does not exist.
    #[error(
        "There are no recordings in {0}: start `pinhead host`, which writes recordings, or choose \
         another directory with --dir"
    )]
    Missing(PathBuf),
    /// Recordings cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// An engine fails or does not respond as expected.
    #[error(transparent)]
    Metrics(#[from] metrics::Error),
    /// An engine has no sample of the time.
    #[error(
        "The metrics server has no samples of this time: check the server's address, and \
         that a manager pushes to the server"
    )]
    Unknown,
}
