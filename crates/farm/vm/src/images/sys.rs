//! The one system call that the standard library does not offer, behind a safe function.

#![allow(unsafe_code, reason = "see JUSTIFICATION in the head of the crate")]

use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the child of a command die with the thread that starts it, and lets the child inherit some
/// file descriptors under their own numbers. The descriptors must stay open until the child is
/// started. Other children that this process starts at the same time do not inherit the
/// descriptors.
pub fn bind_child(command: &mut Command, inherited: Vec<RawFd>) {
    let parent = getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the call above, no signal will be sent.
        if getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
        for &fd in &inherited {
            // SAFETY: the caller keeps the descriptors open until the child is started.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls and reads memory that was
    // allocated before the fork: it neither allocates nor takes a lock. Its errors contain only a
    // number.
    unsafe { command.pre_exec(before_exec) };
}
