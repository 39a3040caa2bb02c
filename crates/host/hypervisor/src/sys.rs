//! The system calls that neither the standard library nor rustix has, and nothing else.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// An address range of another process, in the kernel's layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub start: usize,
    pub length: usize,
}

/// Asks the kernel to reclaim address ranges of the process behind a pidfd. Returns the number of
/// bytes up to the first range that the kernel cannot reclaim. No data is lost: a page is read back
/// when it is accessed.
pub(crate) fn page_out(process: BorrowedFd<'_>, stretches: &[Stretch]) -> io::Result<usize> {
    // SAFETY: a stretch has the layout of struct iovec, and the array outlives the call and is only
    // read. The addresses are those of the other process, so the call accesses no other memory of
    // this process. The advice changes the place of memory and never its content. A wrong address
    // therefore only costs time.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            process.as_raw_fd(),
            stretches.as_ptr(),
            stretches.len(),
            libc::MADV_PAGEOUT,
            0,
        )
    };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

/// Reads a byte at each of these places of another process, so that the kernel reads their pages
/// back. Returns the number of reads before the first unmapped place.
pub(crate) fn touch(pid: u32, places: &[Stretch]) -> io::Result<usize> {
    let mut bytes = vec![0_u8; places.len()];
    let into = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: a stretch has the layout of struct iovec, and the array outlives the call and is only
    // read. The addresses are those of the other process, which is not written to. The kernel
    // writes to one byte of this process for each place.
    let done = unsafe {
        let (from, count) = (places.as_ptr().cast(), places.len() as libc::c_ulong);
        libc::process_vm_readv(pid, &raw const into, 1, from, count, 0)
    };
    match usize::try_from(done) {
        Ok(done) => Ok(done),
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EFAULT) => Ok(0),
            error => Err(error),
        },
    }
}
