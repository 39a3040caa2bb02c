//! System calls that the standard library lacks: paths relative to an open directory, and directory
//! entries in a reused buffer.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

pub(crate) fn open_at(dir: &File, path: &CStr) -> io::Result<File> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends in a zero and outlives the call.
    let fd = unsafe { libc::openat(dir.as_raw_fd(), path.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Returns the number of links of a file below a directory.
pub(crate) fn links_at(dir: &File, path: &CStr) -> io::Result<u64> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path ends in a zero; the structure is filled where the call succeeds, and is
    // read only then.
    unsafe {
        match libc::fstatat(dir.as_raw_fd(), path.as_ptr(), found.as_mut_ptr(), 0) {
            0 => Ok(found.assume_init().st_nlink),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Reads the next entries of a directory, as the kernel writes them. Returns their length; 0 at the
/// end.
pub(crate) fn list(dir: &File, entries: &mut [u8]) -> io::Result<usize> {
    let (fd, length) = (dir.as_raw_fd(), entries.len());
    // SAFETY: the buffer has the given length and outlives the call.
    let count = unsafe { libc::syscall(libc::SYS_getdents64, fd, entries.as_mut_ptr(), length) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Returns the name of the first of these entries, and the entries behind it.
pub fn next_name(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    // Offset of the name, behind a number and an offset of eight bytes each, the entry's length and
    // its type. The name ends in a zero.
    const NAME: usize = 19;
    let length = usize::from(u16::from_ne_bytes(*entries.get(16..)?.first_chunk()?));
    let (entry, rest) = entries.split_at_checked(length)?;
    let name = entry.get(NAME..)?;
    let end = name.iter().position(|byte| *byte == 0)?;
    Some((&name[..end], rest))
}
