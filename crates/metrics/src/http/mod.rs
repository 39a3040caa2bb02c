//! As much of HTTP/1.1 as a scrape, a push and a query need, without I/O.
//!
//! A connection is for one request: both sides say `Connection: close`, so nothing of a client
//! has to be kept, and what follows a request is not read.

mod request;
mod response;

pub use request::{HEAD_MAX, Refusal, Request, answer};
pub use response::Response;
