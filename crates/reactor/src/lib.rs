//! One poll for everything that a single-threaded server waits for.
//!
//! ```text
//!   owners ─► PollSet::add(key, descriptor) ─► wait ─► Ready ─► of(owner) ─► events by key
//!   listening socket ─► Acceptor: some clients a turn, a pause when descriptors run out
//!   unix socket ─► connect ─► Budget: so much a second, so much at once
//!   client ─► Lines: bounded, whole lines        Outbox, Reply ─► client: as much as it takes
//! ```
//!
//! Nothing here blocks but [`PollSet::wait`], and there are no threads and no runtime.

#![forbid(unsafe_code)]

mod accept;
mod budget;
mod connect;
mod lines;
mod peer;
mod poll;
mod reply;

pub use accept::{ACCEPTS_A_TURN, Accepted, Acceptor, accept};
pub use budget::Budget;
pub use connect::connect;
pub use lines::{Lines, Outbox, Received};
pub use peer::is_own_user;
pub use poll::{Event, Lookup, PollSet, Ready};
pub use reply::Reply;

pub use rustix::event::PollFlags;

use std::io;

/// Whether an error only means that there is nothing to read, or no room to write, for now.
pub fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
