//! libvirt's remote protocol, without libvirt's library and without I/O.
//!
//! ```text
//!   socket bytes ─► Decoder ─► Message ─┐
//!                                       ├─ Client ─► Incoming (reply, event)
//!   socket bytes ◄─ Call::encode ◄──────┘
//! ```
//!
//! The daemon and its clients exchange messages of a length, a header of six words and a body in
//! XDR. [`Decoder`] finds the messages in a stream of bytes, [`Call`] encodes a call and decodes
//! its answer, and [`Client`] combines the two. Only the calls that a manager of memory needs are
//! implemented. The crate uses no socket, clock or thread: the owner of the socket moves the bytes.
//!
//! The daemon runs as root and is trusted with more than memory. Its bytes are nevertheless bounded
//! and checked like untrusted input. There are two reasons. A wrong length could exhaust the
//! manager's memory, and the program at the other end may not be libvirt. No byte sequence panics,
//! and a message with a broken body costs only that message.

#![forbid(unsafe_code)]

mod call;
mod client;
mod decoder;
mod domain;
mod error;
mod event;
mod reply;
mod xdr;

pub use call::{Call, EventKind, STATS_MAX};
pub use client::{Client, Incoming, PENDING_MAX, Ticket};
pub use decoder::{Decoder, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, Message, PROTOCOL_BYTES_MAX};
pub use domain::{DOMAINS_MAX, Domain, NAME_BYTES_MAX, Uuid};
pub use error::Error;
pub use event::{Event, Lifecycle};
pub use reply::{
    Auth, DomainStats, Failure, Info, LISTED_MAX, MemoryStat, NodeInfo, Reply, TEXT_BYTES_MAX,
    Value,
};
