//! Errors of pushes and queries.

use std::io;

/// An error of a push or a query.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "`{}` is not the address of a server ({reason}): use http://HOST:PORT/PATH",
        .url.escape_debug()
    )]
    Url { url: String, reason: &'static str },
    /// The server cannot be reached, or closed the connection.
    #[error("Cannot {step} {url}")]
    Io { url: String, step: &'static str, source: io::Error },
    #[error("{url} has not answered for {waited_ms} ms")]
    Slow { url: String, waited_ms: u64 },
    /// The response is not HTTP, or too large.
    #[error("The response of {url} is not valid HTTP: {reason}")]
    Response { url: String, reason: String },
    #[error("{url} responds with {status}: {}", .words.escape_debug())]
    Status {
        url: String,
        status: u16,
        /// Message of the server, cut short. The text is untrusted, so escape it.
        words: String,
    },
    #[error("The response of {url} cannot be used: {reason}")]
    Answer { url: String, reason: String },
    #[error(
        "The data of {url} needs more than {mib} MiB of memory: choose a shorter time, longer \
         intervals or one host"
    )]
    TooMuch { url: String, mib: usize },
    #[error("This span cannot be read: {reason}")]
    Span { reason: &'static str },
}
