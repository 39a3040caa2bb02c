//! The system calls that the standard library does not offer, each behind a safe function.

#![allow(unsafe_code, reason = "see JUSTIFICATION in the head of the crate")]

use std::io;
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::Command;

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
        rustix::thread::set_no_new_privs(true)?;
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

/// The processor's time stamp counter; `None` on a processor without one.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> Option<u64> {
    // SAFETY: each x86-64 processor has the instruction, and it touches no memory.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
