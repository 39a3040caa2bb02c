//! What the client at the other end of a stream takes.

use std::io::Write;
use std::os::unix::net::UnixStream;

use reactor::is_passing;

/// Writes what a nonblocking stream takes of a buffer. Says whether anybody is still there.
pub(super) fn drain_into(mut stream: &UnixStream, buffer: &mut Vec<u8>) -> bool {
    while !buffer.is_empty() {
        match stream.write(buffer) {
            Ok(0) => return false,
            Ok(count) => drop(buffer.drain(..count)),
            Err(error) => return is_passing(&error),
        }
    }
    true
}
