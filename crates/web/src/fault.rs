//! What a visitor is told where a page cannot be shown.

use crate::source;
use axum::http::StatusCode;

/// A page that is not shown, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    /// A sentence.
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Fault {
        Fault { status, message: message.into() }
    }

    /// What was asked for is wrong.
    pub(crate) fn wrong(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, message)
    }

    /// What was asked for is not there.
    pub(crate) fn missing(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::NOT_FOUND, message)
    }

    /// A source that gives nothing now.
    pub(crate) fn source(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

impl From<source::Error> for Fault {
    fn from(error: source::Error) -> Fault {
        Fault::source(base::chain(&error))
    }
}
