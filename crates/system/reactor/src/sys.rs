//! Credentials of the process at the other end of a unix socket. rustix supports no peer without a
//! visible process id, and no library offers the peer's pidfd.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// `SO_PEERPIDFD` of Linux 6.5.
const PEER_PIDFD: libc::c_int = 77;

/// Reads `SO_PEERCRED`. The process id is 0 if the process is not visible from here.
pub(crate) fn credentials(stream: &UnixStream) -> io::Result<libc::ucred> {
    let none = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    option(stream, libc::SO_PEERCRED, none)
}

/// Reads `SO_PEERPIDFD`. On a kernel without this option the error is `ENOPROTOOPT`.
pub(crate) fn pidfd(stream: &UnixStream) -> io::Result<OwnedFd> {
    match option(stream, PEER_PIDFD, -1)? {
        // SAFETY: the descriptor is new and has no other owner.
        fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Reads an option of a socket. `T` is a plain value of the kernel, and any bits are valid.
fn option<T: Copy>(stream: &UnixStream, name: libc::c_int, mut value: T) -> io::Result<T> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value and its length outlive the call, and the length is the size of the value.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    match done {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}
