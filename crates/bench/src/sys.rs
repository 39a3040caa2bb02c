//! The system calls that the standard library does not have, and nothing else.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

/// Holds this process, and all that it starts from now on, on the last CPU that it may
/// use. Returns its number.
pub fn pin() -> io::Result<usize> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of CPUs is plain bits, for which all zeroes is the empty set.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: the set is as long as it is said to be and outlives the call.
    if unsafe { libc::sched_getaffinity(0, size, &mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: every number is below the size of the set.
    let last = all.rev().find(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) });
    let last = last.ok_or(io::ErrorKind::NotFound)?;
    // SAFETY: as above; the number was found in the set.
    let done = unsafe {
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(last, &mut set);
        libc::sched_setaffinity(0, size, &set)
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(last)
}

/// Starts a process that does not outlive this one, however this one ends.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    // SAFETY: between fork and exec one system call is made, which takes numbers only
    // and neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    command.spawn()
}

/// Asks a child to end.
pub fn ask_to_end(child: &Child) {
    // SAFETY: the number is that of our own child. It has not been waited for, so no
    // other process can have got the number.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

/// A terminal that passes bytes on as they are: this process's end, which does not wait, and the
/// path of the other one.
pub fn terminal() -> io::Result<(File, PathBuf)> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the call takes a number and touches no memory.
    let fd = unsafe { libc::posix_openpt(flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else has it.
    let ours = unsafe { File::from_raw_fd(fd) };
    let mut name = [0_u8; 64];
    // SAFETY: the descriptor is open; the name is as long as it is said to be; the settings are
    // plain bits, which tcgetattr fills before they are changed and used.
    let done = unsafe {
        let mut settings = std::mem::zeroed::<libc::termios>();
        let made = libc::grantpt(fd) == 0
            && libc::unlockpt(fd) == 0
            && libc::ptsname_r(fd, name.as_mut_ptr().cast(), name.len()) == 0
            && libc::tcgetattr(fd, &mut settings) == 0;
        libc::cfmakeraw(&mut settings);
        made && libc::tcsetattr(fd, libc::TCSANOW, &settings) == 0
    };
    if !done {
        return Err(io::Error::last_os_error());
    }
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok((ours, PathBuf::from(OsStr::from_bytes(&name[..end]))))
}
