//! The one system call that the standard library does not offer, behind a safe function.

#![allow(unsafe_code, reason = "see JUSTIFICATION in the head of the crate")]

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the child of a command die with the thread that starts it, and hands it some of our file
/// descriptors under their own numbers. The descriptors must stay open until the child is started;
/// they stay closed to every other child that this process may start at the same time.
pub fn bind_child(command: &mut Command, inherited: Vec<RawFd>) {
    // SAFETY: getpid has no preconditions.
    let parent = unsafe { libc::getpid() };
    let before_exec = move || {
        // SAFETY: prctl with PR_SET_PDEATHSIG takes a signal number and touches no memory.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // A parent that died before the call above sends no signal any more.
        // SAFETY: getppid has no preconditions.
        if unsafe { libc::getppid() } != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        for &fd in &inherited {
            // SAFETY: F_SETFD takes a number and touches no memory; a bad descriptor is an error.
            if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls and reads memory that was
    // allocated before the fork: it neither allocates nor takes a lock. The errors that it makes
    // hold a number only.
    unsafe { command.pre_exec(before_exec) };
}
