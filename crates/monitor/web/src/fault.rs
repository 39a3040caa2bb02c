//! Errors that a visitor gets instead of a page.

use crate::source;
use axum::http::StatusCode;

/// Reason why a page is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    /// Message to the visitor, as a sentence.
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Fault {
        Fault { status, message: message.into() }
    }

    /// Returns the fault of an invalid request.
    pub(crate) fn wrong(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, message)
    }

    /// Returns the fault of a missing page or object.
    pub(crate) fn missing(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::NOT_FOUND, message)
    }

    /// Returns the fault of a source that failed.
    pub(crate) fn source(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

impl From<source::Error> for Fault {
    fn from(error: source::Error) -> Fault {
        match error {
            source::Error::NoHost(_) => Fault::missing(error.to_string()),
            _ => Fault::source(base::chain(&error)),
        }
    }
}
