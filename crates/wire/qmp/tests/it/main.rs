//! The protocol, from bytes to replies.

mod client;
mod decoder;
mod replies;
