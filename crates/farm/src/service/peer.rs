//! Who is at the other end of a stream, and what it takes.

use std::io::Write;
use std::os::unix::net::UnixStream;

use reactor::is_passing;
use rustix::net::sockopt::socket_peercred;

/// Only the user who runs the farm is answered, and root.
pub(super) fn is_ours(stream: &UnixStream) -> bool {
    socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

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
