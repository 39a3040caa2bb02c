//! The QEMU machine protocol (QMP), without I/O.
//!
//! ```text
//!   socket bytes ─► Decoder ─► Message ─┐
//!                                       ├─ Client ─► Incoming (ready, reply, event)
//!   socket bytes ◄─ Command::encode ◄───┘
//! ```
//!
//! [`Decoder`] turns bytes into [`Message`]s and [`Client`] turns messages into answers to the
//! [`Command`]s that were sent. Both use no socket, no clock and no thread, and the owner of the
//! socket moves the bytes. The same code therefore serves a blocking test and an event loop with a
//! hundred guests.
//!
//! QEMU itself is trusted, but a guest that breaks out of the emulation controls QEMU. Bytes from
//! the socket are therefore bounded and checked like untrusted input, and no byte sequence panics.

#![forbid(unsafe_code)]

/// File extension of a monitor's socket while QEMU is stopped and greets no client.
pub const HIDDEN: &str = "hidden";

/// File in a farm's directory of sockets if only the guests' own rules are to manage their memory.
/// Managers of other farms leave such guests alone.
pub const RULES_ONLY: &str = "rules-only";

mod client;
mod command;
mod decoder;
mod error;
mod message;
mod reply;

pub use client::{Client, Incoming, PENDING_MAX, Ticket};
pub use command::Command;
pub use decoder::{Decoder, MESSAGE_BYTES_MAX};
pub use error::Error;
pub use message::{Failure, Message};
pub use reply::{
    BlockStats, Chardev, LIST_MAX, Property, Reply, RunState, TEXT_BYTES_MAX, VCPUS_MAX, VcpuThread,
};

/// JSON of answers and of event data, with a shape that depends on the command or the event.
pub use serde_json::Value;
