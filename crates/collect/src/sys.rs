//! The one system call that neither the standard library nor rustix has, and nothing else.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

/// The number of cachestat, which is the same on every architecture.
const CACHESTAT: libc::c_long = 451;

/// How many pages of a file are in the cache, without reading any of it. `None` where the kernel
/// does not tell: before Linux 6.5, and of files that are not the caller's to know about.
pub(crate) fn cached_pages(file: &File) -> Option<u64> {
    // From the beginning; a length of 0 stands for the whole file.
    let range = [0_u64; 2];
    // Pages in the cache, dirty ones, those being written, and those that were there before.
    let mut counts = [0_u64; 5];
    // SAFETY: the range and the counts have the layout that the kernel reads and fills, and
    // outlive the call; the descriptor is open.
    let done = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0)
    };
    (done == 0).then_some(counts[0])
}
