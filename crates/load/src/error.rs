//! What keeps a load from being put on anything.

use std::io;

/// Everything that this crate can fail at as a whole. A request that fails is no error here: it is
/// counted ([`crate::Failure`]), and the load goes on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Target {text:?}: {reason}")]
    Target { text: String, reason: String },
    #[error("The load's {field}: {reason}")]
    Plan { field: &'static str, reason: String },
    #[error("The job's {field}: {reason}")]
    Job { field: &'static str, reason: String },
    #[error("Cannot wait for the connections")]
    Poll(#[source] io::Error),
    #[error("Cannot make a histogram")]
    Histogram(#[source] hdrhistogram::CreationError),
}
