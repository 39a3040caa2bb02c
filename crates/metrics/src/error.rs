//! What can be wrong.

use std::fmt;
use std::io;

/// Why a metric was not pushed, or a fleet not read.
#[derive(Debug)]
pub enum Error {
    /// It is no address that can be used.
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The server cannot be reached, or broke off.
    Io {
        /// The server.
        url: String,
        /// What was done.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// It takes too long.
    Slow {
        /// The server.
        url: String,
        /// How long was waited.
        waited_ms: u64,
    },
    /// What comes back is not HTTP, or more than fits.
    Response {
        /// The server.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server says no.
    Status {
        /// The server.
        url: String,
        /// Its number for it.
        status: u16,
        /// Its words for it, cut short. They come from outside: escape them.
        words: String,
    },
    /// The answer to a query is not what Prometheus' interface says.
    Answer {
        /// The server.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The span that was asked for cannot be read.
    Span {
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Url { url, reason } => write!(
                f,
                "`{}` is no address of a server ({reason}): write http://HOST:PORT/PATH",
                url.escape_debug()
            ),
            Error::Io { url, step, .. } => write!(f, "It was not possible to {step} {url}"),
            Error::Slow { url, waited_ms } => {
                write!(f, "{url} has not answered for {waited_ms} ms")
            }
            Error::Response { url, reason } => {
                write!(f, "What {url} answers is no HTTP response: {reason}")
            }
            Error::Status { url, status, words } => {
                write!(f, "{url} answers {status}: {}", words.escape_debug())
            }
            Error::Answer { url, reason } => {
                write!(f, "{url} answers what no Prometheus would: {reason}")
            }
            Error::Span { reason } => write!(f, "This span cannot be read: {reason}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
