//! Subset of HTTP/1.1 for scrapes, pushes and queries, without I/O.
//!
//! A connection serves one request, because both sides send `Connection: close`. No state of a
//! client is kept, and bytes after a request are not read.

mod request;
mod response;

pub use request::{HEAD_MAX, Refusal, Request, answer};
pub use response::Response;
