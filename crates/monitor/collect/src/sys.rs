//! System call that is missing from the standard library and from rustix.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

/// Number of cachestat, the same on every architecture.
const CACHESTAT: libc::c_long = 451;

/// Returns the number of a file's pages in the cache, without reading the file. Returns `None`
/// without permission, and before Linux 6.5.
pub(crate) fn cached_pages(file: &File) -> Option<u64> {
    // Offset 0 and length 0 mean the whole file.
    let range = [0_u64; 2];
    // Pages cached, dirty, in writeback, evicted, and recently evicted.
    let mut counts = [0_u64; 5];
    // SAFETY: the range and the counts have the layout that the kernel reads and fills, and outlive
    // the call, and the descriptor is open.
    let done = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0)
    };
    (done == 0).then_some(counts[0])
}
