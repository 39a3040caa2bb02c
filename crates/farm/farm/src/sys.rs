//! System calls that the standard library does not offer, each behind a safe function.

#![allow(unsafe_code, reason = "see JUSTIFICATION in the head of the crate")]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Activates a swap file or swap device, with this priority.
pub(crate) fn swap_on(path: &Path, priority: u16) -> io::Result<()> {
    /// Flag for a given priority (`SWAP_FLAG_PREFER`), and the priority's bits.
    const PREFER: libc::c_int = 0x8000;
    const PRIORITY: u16 = 0x7fff;
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero and lives until the call returns; the flags are known.
    match unsafe { libc::swapon(path.as_ptr(), PREFER | libc::c_int::from(priority & PRIORITY)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Deactivates a swap file or swap device, and waits until all of its pages are read back.
pub(crate) fn swap_off(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero and lives until the call returns.
    match unsafe { libc::swapoff(path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
