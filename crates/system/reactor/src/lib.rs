//! One poll for all descriptors of a single-threaded server.
//!
//! ```text
//!   owners ─► PollSet::add(key, descriptor) ─► wait ─► Ready ─► of(owner) ─► events by key
//!   Connection, told once ─► Watcher ─┘
//!   listening socket ─► Acceptor: some clients a turn, a pause when descriptors run out
//!   unix socket ─► connect ─► Budget: so much a second, so much at once
//!   client ─► Lines: bounded, whole lines        Outbox, Reply ─► client: as much as it takes
//! ```
//!
//! Only the waits of [`PollSet`] and [`connect_within`] block. [`connect_within`] is for simple
//! clients. There are no threads and no runtime.

#![deny(unsafe_code)]

mod accept;
mod budget;
mod connect;
mod lines;
mod local;
mod peer;
mod poll;
mod reply;
mod sys;
mod watch;

pub use accept::{ACCEPTS_A_TURN, Accepted, Acceptor, accept};
pub use budget::Budget;
pub use connect::{connect, connect_within};
pub use lines::{Lines, Outbox, Received};
pub use local::Users;
pub use peer::{Peer, is_own_user, peer, peer_pidfd};
pub use poll::{Event, Lookup, PollSet, Ready};
pub use reply::Reply;
pub use watch::{Connection, Watcher};

pub use rustix::event::PollFlags;

use std::io::{self, Read, Write};

/// Returns true if an error only means that there is nothing to read, or no room to write, for now.
pub fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Reads once from a non-blocking stream. A result of 0 bytes means that no data is available now,
/// and the stream's end is an error.
pub fn read_some(mut stream: impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    match stream.read(buffer) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if is_passing(&error) => Ok(0),
        read => read,
    }
}

/// Writes as much as a non-blocking stream accepts now, and returns the number of bytes. A closed
/// stream is an error.
pub fn write_some(mut stream: impl Write, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if is_passing(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
