//! What the client at the other end of a stream takes.

use std::os::unix::net::UnixStream;

use reactor::write_some;

/// Writes what a nonblocking stream takes of a buffer. Gives whether the peer is still there.
pub(super) fn drain_into(stream: &UnixStream, buffer: &mut Vec<u8>) -> bool {
    write_some(stream, buffer).map(|sent| drop(buffer.drain(..sent))).is_ok()
}
