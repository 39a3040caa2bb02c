//! The one socket option that no library has: the process at the other end, as a descriptor.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// `SO_PEERPIDFD` of Linux 6.5.
const PEER_PIDFD: libc::c_int = 77;

/// The process that listened at the other end, also when its number has another process by now.
/// A kernel without this gives `ENOPROTOOPT`.
pub(crate) fn peer_pidfd(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut fd: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value and its length outlive the call, and the length is the value's.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            PEER_PIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    };
    if done != 0 || fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
