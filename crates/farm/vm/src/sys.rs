//! The system calls that the standard library does not offer, each behind a safe function.

#![allow(unsafe_code, reason = "see JUSTIFICATION in the head of the crate")]

use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Gid, Resource, Rlimit, Uid, getpid, getrlimit, setrlimit, setsid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::rights::{self, Rights};

/// Lets the child of a command share equal pages of memory with similar processes. If the kernel
/// refuses one of the settings, the child starts without it.
pub(crate) fn share_memory(command: &mut Command) {
    let before_exec = || {
        // A page of 2 MiB cannot be shared with another guest, and is wholly resident after one
        // byte was touched. An idle guest would then use twice as much memory.
        // SAFETY: PR_SET_THP_DISABLE takes numbers and touches no memory.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        // QEMU itself requests merging only for the guest's memory. The kernel images that QEMUs
        // keep for a reboot, and parts of their heaps, are equal, too. Since Linux 6.7 exec
        // inherits this setting.
        // SAFETY: PR_SET_MEMORY_MERGE takes numbers and touches no memory.
        unsafe { libc::prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls.
    unsafe { command.pre_exec(before_exec) };
}

/// Gives the child of a command its own session, without a terminal. A child in this process's
/// session could open the terminal, even as another user, and type commands for the user's shell to
/// run. The child must not already lead a process group, because a leader cannot start a session.
pub(crate) fn own_session(command: &mut Command) {
    let before_exec = || Ok(setsid().map(drop)?);
    // SAFETY: between fork and exec the closure only makes a system call.
    unsafe { command.pre_exec(before_exec) };
}

/// Drops all rights that the child of a command does not need. The child becomes the user in
/// `rights`, with at most one group and no capabilities, and cannot regain any right. If a step
/// fails, the child is not started. The parent-death signal must be set after this call, because a
/// change of user clears the signal.
pub(crate) fn give_up_rights(command: &mut Command, rights: Rights) {
    let files_max = getrlimit(Resource::Nofile).maximum;
    let files_max = files_max.map_or(rights::FILES_MAX, |max| max.min(rights::FILES_MAX));
    let strays = if closes_range() { Vec::new() } else { open_files() };
    let before_exec = move || {
        let limit = |resource, value| {
            setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
        };
        // QEMU's memory contains the guest's memory, which must not be dumped to a disk.
        limit(Resource::Core, 0)?;
        // Files inherited from this process's parent must not reach the child.
        close_from_exec(3);
        for &fd in &strays {
            // SAFETY: the call takes numbers, and closes nothing before exec.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        limit(Resource::Nofile, files_max)?;
        if let Some(users) = rights.users {
            let id = users.of_process(getpid().as_raw_nonzero().get() as u32);
            limit(Resource::Nproc, rights.threads_max)?;
            // The kernel returns an error at the first number that is not a capability.
            // SAFETY: PR_CAPBSET_DROP takes numbers and touches no memory.
            let drop = |number: u64| unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
            let _ = (0..64).find(|&number| drop(number) != 0);
            let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
            set_thread_groups(rights.kvm.as_slice())?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)?;
        }
        leave_keyring(rights.users.is_some())?;
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, none)?;
        Ok(set_no_new_privs(true)?)
    };
    // SAFETY: between fork and exec the closure only makes system calls of this thread, the only
    // one, and reads its own memory. The closure neither allocates nor takes a lock.
    unsafe { command.pre_exec(before_exec) };
}

/// Joins a new, empty session keyring. A process with the old session keyring could read the keys
/// in it, even as another user. A kernel or container without keys refuses the call, which is then
/// not needed. If the child keeps this process's user, a failure is ignored, because such a child
/// can read the keys in other ways.
fn leave_keyring(becomes_other: bool) -> io::Result<()> {
    let (join, nameless) = (KEYCTL_JOIN_SESSION_KEYRING, 0_usize);
    // SAFETY: without a name the call takes numbers and touches no memory.
    if unsafe { libc::syscall(libc::SYS_keyctl, join, nameless) } >= 0 || !becomes_other {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM) => Ok(()),
        _ => Err(error),
    }
}

/// From linux/keyctl.h.
const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;

/// Marks all files from number `first` on to be closed by exec. Returns false if the kernel
/// refuses, as kernels before 5.11 do.
fn close_from_exec(first: u32) -> bool {
    let (last, flag) = (u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: the call takes numbers, and closes nothing before exec.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flag) == 0 }
}

/// Returns true if [`close_from_exec`] works here, by trying a range without files.
fn closes_range() -> bool {
    close_from_exec(u32::MAX)
}

/// Returns this process's open files, except for the standard input and outputs. Files that another
/// thread opens meanwhile have close-on-exec set, like all files that this process opens itself.
fn open_files() -> Vec<RawFd> {
    let names = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = names.filter_map(|name| name.file_name().to_str()?.parse().ok());
    numbers.filter(|&fd| fd > 2).collect()
}

/// The handling of holes that a child punches into files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holes {
    /// The holes are punched.
    Punched,
    /// The call succeeds without effect, and the files stay whole.
    Pretended,
}

/// Makes every open for reading and writing in a child return the child's standard input. The file
/// with a guest's memory is the only file that QEMU opens for reading and writing. QEMU does so
/// even for a private view, which never writes to the file. With a read-only standard input the
/// child gets the memory, but cannot change the file.
///
/// With [`Holes::Pretended`] the child's hole punching succeeds without effect. When a guest
/// returns memory, QEMU punches holes into the memory's file, and all other guests that view the
/// file would lose these pages. QEMU then drops its own pages, which is enough.
///
/// If the filter cannot be installed, the child is not started.
pub(crate) fn memory_is_stdin(command: &mut Command, holes: Holes) -> io::Result<()> {
    let Some(arch) = AUDIT_ARCH else { return Err(io::ErrorKind::Unsupported.into()) };
    let step =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |at: usize| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at as u32);
    let end = |what: u32| step(libc::BPF_RET | libc::BPF_K, 0, 0, what);
    let (equal, has) = (libc::BPF_JEQ, libc::BPF_JSET);
    // The lower half of a call's 64-bit argument.
    let argument = |index: usize| {
        let lower = if cfg!(target_endian = "big") { 4 } else { 0 };
        load(mem::offset_of!(libc::seccomp_data, args) + 8 * index + lower)
    };
    // Instructions that skip a system call with this argument, and make its result 0.
    let is_done = |call: libc::c_long, index: usize, test: u32, value: libc::c_int| {
        [
            load(mem::offset_of!(libc::seccomp_data, nr)),
            step(libc::BPF_JMP | equal | libc::BPF_K, 0, 3, call as u32),
            argument(index),
            step(libc::BPF_JMP | test | libc::BPF_K, 0, 1, value as u32),
            end(libc::SECCOMP_RET_ERRNO),
        ]
    };
    let mut filter = vec![
        load(mem::offset_of!(libc::seccomp_data, arch)),
        step(libc::BPF_JMP | equal | libc::BPF_K, 1, 0, arch),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    filter.extend(is_done(libc::SYS_openat, 2, equal, libc::O_RDWR));
    if holes == Holes::Pretended {
        filter.extend(is_done(libc::SYS_fallocate, 1, has, libc::FALLOC_FL_PUNCH_HOLE));
    }
    filter.push(end(libc::SECCOMP_RET_ALLOW));
    let before_exec = move || {
        let program = libc::sock_fprog {
            len: filter.len() as libc::c_ushort,
            filter: filter.as_ptr().cast_mut(),
        };
        set_no_new_privs(true)?;
        let (set, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
        // SAFETY: the kernel reads a program of this length, which outlives the call.
        match unsafe { libc::syscall(libc::SYS_seccomp, set, flags, &raw const program) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes system calls and reads its own memory.
    unsafe { command.pre_exec(before_exec) };
    Ok(())
}

/// Returns true if [`memory_is_stdin`] works here, by trying it. A kernel may lack filters, and a
/// sandbox may forbid them.
pub(crate) fn filters_calls() -> bool {
    let mut command = Command::new("true");
    memory_is_stdin(&mut command, Holes::Pretended).is_ok()
        && command.status().is_ok_and(|status| status.success())
}

/// The number of this architecture in the kernel's filters of system calls, from linux/audit.h.
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

/// Statistics of the data received on a TCP connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// Time since data was last received, in milliseconds. Without received data, the time since
    /// the connection's start.
    pub(crate) ago_ms: u32,
    pub(crate) bytes: u64,
}

pub(crate) fn heard(socket: BorrowedFd<'_>) -> io::Result<Heard> {
    // Offsets from linux/tcp.h, in numbers of four bytes. The first eight bytes are flags, and the
    // twelfth number after them is tcpi_last_data_recv. tcpi_bytes_received has eight bytes.
    const LAST_RECEIVED: usize = 2 + 11;
    const RECEIVED: usize = 128 / 4;
    let mut info = [0_u32; 64];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, and stores their number in `length`.
    let done = unsafe {
        let (to, size) = (info.as_mut_ptr().cast(), &raw mut length);
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, size)
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let halves = [info[RECEIVED].to_ne_bytes(), info[RECEIVED + 1].to_ne_bytes()];
    let mut bytes = [0; 8];
    bytes.copy_from_slice(halves.as_flattened());
    Ok(Heard { ago_ms: info[LAST_RECEIVED], bytes: u64::from_ne_bytes(bytes) })
}

/// Reads the processor's time stamp counter; `None` on a processor without one.
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
    use std::fs::File;
    use std::process::Stdio;

    use crate::images::{Arch, FirstProcess, Image};
    use crate::{Accel, GuestSpec, Scratch, WhyEmulation};

    #[test]
    fn pretended_holes_leave_the_file_whole() {
        let dir = Scratch::new("hole").unwrap();
        let path = dir.join("file");
        let holes = |holes| {
            fs::write(&path, [b'x'; 8192]).unwrap();
            let mut command = Command::new("fallocate");
            command.args(["--punch-hole", "--offset", "0", "--length", "4096"]).arg(&path);
            // The child opens its file as QEMU opens a guest's memory.
            let file = File::options().read(true).write(true).open(&path).unwrap();
            memory_is_stdin(command.stdin(file), holes).unwrap();
            assert!(command.status().unwrap().success());
            fs::read(&path).unwrap().iter().filter(|&&byte| byte == 0).count()
        };
        assert_eq!((holes(Holes::Punched), holes(Holes::Pretended)), (4096, 0));
        let mut longer = Command::new("fallocate");
        longer.args(["--length", "12288"]).arg(&path);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        memory_is_stdin(longer.stdin(file), Holes::Pretended).unwrap();
        assert!(longer.status().unwrap().success());
        assert_eq!(fs::metadata(&path).unwrap().len(), 12288, "nothing else is kept from it");
    }

    /// Runs a shell that tries the accesses of a process with a clone's rights. `/dev/fd/0` is the
    /// file with the memory of all clones.
    fn tries(script: &str, memory: &File) -> String {
        tries_in(Command::new("sh"), script, memory)
    }

    fn tries_in(mut command: Command, script: &str, memory: &File) -> String {
        command.args(["-c", script]).stdin(Stdio::from(memory.try_clone().unwrap()));
        let image = Image {
            arch: Arch::X86_64,
            kernel: "/k".into(),
            initramfs: "/i".into(),
            first_process: FirstProcess::Ours,
        };
        let spec = GuestSpec::new("g1", image, Accel::Emulation(WhyEmulation::Asked));
        give_up_rights(&mut command, Rights::of(&spec));
        memory_is_stdin(&mut command, Holes::Pretended).unwrap();
        let output = command.output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    fn is_root() -> bool {
        // Without root there is only one user, so the child keeps this user.
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            base::skipped!("a process that is not root cannot become another user");
        }
        is_root
    }

    #[test]
    fn finding_03_child_has_no_user_groups_or_capabilities_of_ours() {
        if !is_root() {
            return;
        }
        let script = "cat /proc/self/status; ulimit -c; kill -0 $PPID; cat /etc/shadow";
        let text = tries(script, &File::open("/dev/null").unwrap());
        let values = |name: &str| -> Vec<&str> {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].split_ascii_whitespace().collect()
        };
        for name in ["Uid:", "Gid:"] {
            let ids = values(name);
            assert!(ids.iter().all(|id| *id == ids[0] && *id != "0"), "{ids:?}");
        }
        assert_eq!(values("Groups:"), [""; 0]);
        for name in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(values(name), ["0000000000000000"], "{name}");
        }
        assert_eq!((values("NoNewPrivs:"), values("Seccomp:")), (vec!["1"], vec!["2"]));
        assert!(text.lines().any(|line| line == "0"), "no memory is left on a disk");
        assert_eq!(
            text.matches("ermission denied").count() + text.matches("not permitted").count(),
            2
        );
    }

    #[test]
    fn finding_03_a_child_has_none_of_our_keys() {
        if !is_root() {
            return;
        }
        // A session keyring of root with a key in it, as a login leaves behind.
        let keep_key = || {
            let (join, nameless) = (KEYCTL_JOIN_SESSION_KEYRING, 0_usize);
            let (kind, name) = (c"user".as_ptr(), c"pinhead-test-key".as_ptr());
            let (text, session) = (c"secret".as_ptr(), -3_i32);
            // SAFETY: the texts are constants, and the kernel reads six bytes of `text`.
            let kept = unsafe {
                libc::syscall(libc::SYS_keyctl, join, nameless) >= 0
                    && libc::syscall(libc::SYS_add_key, kind, name, text, 6, session) >= 0
            };
            if kept { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        let with_key = || {
            let mut command = Command::new("sh");
            // SAFETY: between fork and exec the closure only makes system calls.
            unsafe { command.pre_exec(keep_key) };
            command
        };
        let seen = with_key().args(["-c", "cat /proc/keys"]).output();
        let Ok(seen) = seen.map(|output| String::from_utf8(output.stdout).unwrap()) else {
            base::skipped!("this kernel keeps no keys");
            return;
        };
        assert!(seen.contains("pinhead-test-key"), "{seen}");
        let text = tries_in(with_key(), "cat /proc/keys", &File::open("/dev/null").unwrap());
        assert!(!text.contains("pinhead-test-key"), "{text}");
    }

    /// Kernels before 5.11 cannot close a range of files, so the open files are listed.
    #[test]
    fn finding_03_every_file_that_we_were_left_open_is_found() {
        let file = File::open("/dev/null").unwrap();
        let found = open_files();
        assert!(found.contains(&file.as_raw_fd()), "{found:?}");
        assert!(found.iter().all(|&fd| fd > 2), "{found:?}");
    }

    #[test]
    fn finding_03_clone_cannot_write_to_its_templates_memory() {
        if !is_root() {
            return;
        }
        let dir = Scratch::new("rewrite").unwrap();
        let path = dir.join("memory");
        fs::write(&path, "memory").unwrap();
        let mode = |mode| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o600);
        let memory = File::open(&path).unwrap();
        let script = "cat <&0; echo x >&0; echo x > /dev/fd/0; echo x >> /proc/self/fd/0; \
                      exec 5<> /dev/fd/0; echo x >&5; chmod 666 /dev/fd/0; truncate -s 0 /dev/fd/0";
        let text = tries(script, &memory);
        assert!(text.starts_with("memory"), "it may read it: {text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "memory", "{text}");
    }
}
