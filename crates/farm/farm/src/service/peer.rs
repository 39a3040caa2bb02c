//! Writing to a client at the other end of a stream.

use std::os::unix::net::UnixStream;

use reactor::write_some;

/// Writes as much of a buffer as a nonblocking stream accepts. Returns true if the peer is still
/// connected.
pub(super) fn drain_into(stream: &UnixStream, buffer: &mut Vec<u8>) -> bool {
    write_some(stream, buffer).map(|sent| drop(buffer.drain(..sent))).is_ok()
}
