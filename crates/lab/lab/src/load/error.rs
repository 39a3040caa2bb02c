//! Errors that prevent a load.

use std::io;

/// Error of a load. If a request fails, the load continues, and the failure is counted
/// ([`crate::load::Failure`]).
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
