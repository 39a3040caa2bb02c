//! The one socket option that no library gives whole: rustix has no credentials of a peer whose
//! process has no number here.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// `SO_PEERCRED`, as the kernel has it: the process is 0 if it is not seen from here.
pub(crate) fn credentials(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the value and its length outlive the call, and the length is the value's.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    match done {
        0 => Ok(found),
        _ => Err(io::Error::last_os_error()),
    }
}
