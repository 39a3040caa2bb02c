//! The process at the other end of a unix socket.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::sys;

/// The process that connected or listened, as it was at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The process id; `None` if the process is in a process namespace that is not visible from
    /// here.
    pub pid: Option<u32>,
}

/// Returns the process at the other end.
pub fn peer(stream: &UnixStream) -> io::Result<Peer> {
    sys::credentials(stream).map(peer_of)
}

/// Returns a descriptor of the process that listened at the other end, even if another process has
/// its id now. Before Linux 6.5 the error is `ENOPROTOOPT`.
pub fn peer_pidfd(stream: &UnixStream) -> io::Result<OwnedFd> {
    sys::pidfd(stream)
}

fn peer_of(credentials: libc::ucred) -> Peer {
    let pid = u32::try_from(credentials.pid).ok().filter(|pid| *pid > 0);
    Peer { uid: credentials.uid, gid: credentials.gid, pid }
}

/// Returns true if the peer runs as the user of this process, or as root. Other users are not
/// trusted.
pub fn is_own_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    peer(stream).is_ok_and(|peer| peer.uid == 0 || peer.uid == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_of_another_namespace_has_a_user_and_no_number() {
        let (one, _other) = UnixStream::pair().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        assert_eq!(peer(&one).unwrap(), Peer { uid, gid, pid: Some(std::process::id()) });
        let unseen = libc::ucred { pid: 0, uid: 7, gid: 8 };
        assert_eq!(peer_of(unseen), Peer { uid: 7, gid: 8, pid: None });
    }
}
