//! System calls that the standard library lacks.
#![allow(unsafe_code)]

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

/// Pins this process, and all later children, to the last CPU that it may use. Returns the CPU's
/// number.
pub fn pin() -> io::Result<usize> {
    let allowed = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    let last = last.ok_or(io::ErrorKind::NotFound)?;
    let mut only = CpuSet::new();
    only.set(last);
    sched_setaffinity(None, &only)?;
    Ok(last)
}

/// Starts a child that ends with this process, whatever ends this process.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    // SAFETY: between fork and exec one system call is made, which takes numbers only and neither
    // allocates nor takes a lock.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
    }
    command.spawn()
}

/// Sends SIGTERM to a child that has not been reaped.
pub fn ask_to_end(child: &Child) {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
}

/// Opens a pseudo-terminal that passes bytes unchanged. Returns this process's end, which does not
/// block, and the path of the other end.
pub fn terminal() -> io::Result<(File, PathBuf)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let mut settings = tcgetattr(&ours)?;
    settings.make_raw();
    tcsetattr(&ours, OptionalActions::Now, &settings)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let name = ptsname(&ours, Vec::new())?;
    Ok((File::from(ours), PathBuf::from(OsString::from_vec(name.into_bytes()))))
}
