//! The messages between a guest and its host over virtio-serial.
//!
//! ```text
//!   offset 0  u16  magic 0x9D1E, big-endian like all numbers here
//!          2  u8   kind of the message
//!          3  u8   version of the format, 1
//!          4  u16  length of the body, at most MAX_BODY
//!          6  u16  check of the six bytes before it
//!          8  u32  CRC-32 (IEEE) of kind, version, length and body
//!         12  ...  body
//! ```
//!
//! This crate converts bytes to messages and back, without I/O. The messages are rows of one table,
//! which generates the two enums [`ToHost`] and [`ToGuest`]. A new message therefore does not
//! compile until its receivers handle it. Both ends may start, stop and restart at any time on a
//! port that stays open. A stream may therefore begin in the middle of a frame. The decoder
//! searches for the next whole frame and counts the dropped bytes. Everything that a guest sends is
//! untrusted: lengths are bounded before a byte is kept, and the receiver checks the numbers.
//!
//! The header has its own check so that a frame with a broken body is dropped whole. No byte is
//! checksummed twice, for any garbage from a guest.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod body;
mod file;
mod frame;
mod identity;
mod memory;
mod processes;
mod system;
mod table;
mod to_guest;
mod to_host;

pub use body::{MAX_BODY, MAX_CHUNK, MAX_TEXT};
pub use file::File;
pub use frame::{Decoder, Dropped, HEADER, MAX_FRAME, VERSION, encode};
pub use identity::{Addresses, Identity, uuid_text};
pub use memory::Memory;
pub use processes::{MAX_NAME, Processes, Scan, TASKS_A_PART, Task, TaskKind, Totals};
pub use system::System;
pub use table::{Message, Row, ToGuest, ToHost};
pub use to_guest::{AskAlarm, AtHost, Capture, Grant, Sample, Welcome};
pub use to_host::{
    Alarm, CameFrom, Chunk, Hello, Identified, PoolKind, PoolRequest, Pressure, Status,
};

/// The name of the port. The port of QEMU's own agent is `org.qemu.guest_agent.0`.
pub const PORT: &str = "org.pinhead.0";
