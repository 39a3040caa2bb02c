//! The system calls that the standard library does not offer, each behind a safe function.

#![allow(unsafe_code, reason = "see JUSTIFICATION in the head of the crate")]

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use crate::tsc::Moment;

/// Makes the child of a command cheap beside many of its kind. Each is an offer that a kernel may
/// decline.
pub(crate) fn share_memory(command: &mut Command) {
    let before_exec = || {
        // A page of 2 MiB cannot be shared with a neighbour, and is in memory as a whole when one
        // byte of it was touched: an idle guest would have twice what it uses.
        // SAFETY: PR_SET_THP_DISABLE takes numbers and touches no memory.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        // Not only a guest's memory is alike, for which QEMU asks itself: so is the kernel that
        // each QEMU keeps for a reboot, and some of its heap. Inherited by exec since Linux 6.7.
        // SAFETY: PR_SET_MEMORY_MERGE takes numbers and touches no memory.
        unsafe { libc::prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls.
    unsafe { command.pre_exec(before_exec) };
}

/// Makes the child of a command believe that it punches holes into files, without one being
/// punched. QEMU does that to the file behind a guest's memory when the guest gives memory back,
/// even where the guest has only a private view of the file: under every other guest. What it does
/// next, to drop its own pages, is enough. A child for which this fails is not started.
pub(crate) fn keep_files_whole(command: &mut Command) -> io::Result<()> {
    let Some(arch) = AUDIT_ARCH else { return Err(io::ErrorKind::Unsupported.into()) };
    let load = |at: usize| (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at as u32);
    // Goes on if it is so, and else lets the call happen, which is this many steps further.
    let needs =
        |value: u32, left: u8| (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, left, value);
    let has = |bits: u32, left: u8| (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, left, bits);
    let end = |what: u32| (libc::BPF_RET | libc::BPF_K, 0, 0, what);
    // The second of six arguments of 64 bits, its lower half.
    let lower = if cfg!(target_endian = "big") { 4 } else { 0 };
    let mode = mem::offset_of!(libc::seccomp_data, args) + 8 + lower;
    let steps = [
        load(mem::offset_of!(libc::seccomp_data, arch)),
        needs(arch, 5),
        load(mem::offset_of!(libc::seccomp_data, nr)),
        needs(libc::SYS_fallocate as u32, 3),
        load(mode),
        has(libc::FALLOC_FL_PUNCH_HOLE as u32, 1),
        // The error 0: done.
        end(libc::SECCOMP_RET_ERRNO),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let filter = steps.map(|(code, jt, jf, k)| libc::sock_filter { code: code as u16, jt, jf, k });
    let before_exec = move || {
        let program = libc::sock_fprog {
            len: filter.len() as libc::c_ushort,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: PR_SET_NO_NEW_PRIVS takes numbers and touches no memory.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let (set, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
        // SAFETY: the kernel reads a program of this length, which outlives the call.
        match unsafe { libc::syscall(libc::SYS_seccomp, set, flags, &raw const program) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes system calls and reads memory of its own.
    unsafe { command.pre_exec(before_exec) };
    Ok(())
}

/// Whether [`keep_files_whole`] works here: it is tried. A kernel may lack filters, and a sandbox
/// may allow none.
pub(crate) fn keeps_files_whole() -> bool {
    let mut command = Command::new("true");
    keep_files_whole(&mut command).is_ok() && command.status().is_ok_and(|status| status.success())
}

/// From linux/audit.h: what the kernel calls this architecture where it filters system calls.
const AUDIT_ARCH: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else if cfg!(target_arch = "s390x") {
    Some(0x8000_0016)
} else {
    None
};

/// From linux/prctl.h, since Linux 6.4.
const PR_SET_MEMORY_MERGE: libc::c_int = 67;

/// A file without a name that holds exactly `size_bytes` and never more: writing past its end
/// fails. It takes a child's words without a thread that reads them, and without a limit on how
/// long they are kept.
pub(crate) fn bounded_file(size_bytes: u64) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a constant that ends with a zero, and the flags are known ones.
    let fd = unsafe { libc::memfd_create(c"stderr".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: memfd_create has just made this descriptor, and nobody else has it.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.set_len(size_bytes)?;
    let seals = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: F_ADD_SEALS takes a number and touches no memory.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// The processor's time stamp counter beside the kernel's clock; `None` on a processor without one.
pub(crate) fn tsc_moment() -> Option<Moment> {
    let before = ticks()?;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer leads to one timespec, which lives until the call returns.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) } != 0 {
        return None;
    }
    let took_ticks = ticks()?.checked_sub(before)?;
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let ns = seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec).ok()?)?;
    Some(Moment { ticks: before.checked_add(took_ticks / 2)?, ns, took_ticks })
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> Option<u64> {
    // SAFETY: each x86-64 processor has the instruction, and it touches no memory.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> Option<u64> {
    None
}

/// Waits until a process has ended or the time is over, and says whether it has ended. A process
/// that does not exist has ended. It may be any process, not only a child; a child still has to be
/// reaped afterwards.
pub fn wait_for_exit(pid: u32, timeout: Duration) -> io::Result<bool> {
    // SAFETY: pidfd_open takes two numbers and touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ESRCH) { Ok(true) } else { Err(error) };
    }
    // SAFETY: pidfd_open has just made this descriptor, and nobody else has it. Descriptors fit
    // into an int.
    let pidfd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout_ms = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the pointer leads to one pollfd, which lives until the call returns.
    match unsafe { libc::poll(&mut poll, 1, timeout_ms) } {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_bounded_file_takes_what_fits_and_no_more() {
        let mut file = bounded_file(4).unwrap();
        file.write_all(b"abcd").unwrap();
        assert!(file.write(b"e").is_err());
        assert_eq!(file.metadata().unwrap().len(), 4);
        let mut kept = [0; 4];
        file.read_exact_at(&mut kept, 0).unwrap();
        assert_eq!(&kept, b"abcd");
    }

    #[test]
    fn a_hole_is_punched_into_no_file_by_who_may_not() {
        let path = std::env::temp_dir().join(format!("vm-hole-{}", std::process::id()));
        let holes = |keep: bool| {
            std::fs::write(&path, [b'x'; 8192]).unwrap();
            let mut command = Command::new("fallocate");
            command.args(["--punch-hole", "--offset", "0", "--length", "4096"]).arg(&path);
            if keep {
                keep_files_whole(&mut command).unwrap();
            }
            assert!(command.status().unwrap().success());
            std::fs::read(&path).unwrap().iter().filter(|&&byte| byte == 0).count()
        };
        assert_eq!((holes(false), holes(true)), (4096, 0));
        let mut longer = Command::new("fallocate");
        longer.args(["--length", "12288"]).arg(&path);
        keep_files_whole(&mut longer).unwrap();
        assert!(longer.status().unwrap().success());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 12288, "nothing else is kept from it");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(!wait_for_exit(child.id(), Duration::from_millis(1)).unwrap());
        child.kill().unwrap();
        assert!(wait_for_exit(child.id(), Duration::from_secs(60)).unwrap());
        child.wait().unwrap();
        assert!(wait_for_exit(child.id(), Duration::ZERO).unwrap());
    }
}
