//! Who is at the other end of a unix socket.

use std::os::unix::net::UnixStream;

use rustix::net::sockopt::socket_peercred;

/// Whether the peer is the user of this process, or root: nobody else asks or is asked.
pub fn is_own_user(stream: &UnixStream) -> bool {
    socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}
