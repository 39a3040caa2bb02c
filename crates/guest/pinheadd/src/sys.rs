//! System calls that the standard library lacks.
#![allow(unsafe_code)]

use crate::cron::{DAYS, MONTHS};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: restore the state and end.
    End,
    /// SIGHUP: read the rules again.
    Reload,
    /// SIGIO: a port watched by [`signal_changes`] has changed.
    Port,
}

/// Signals that the daemon handles, as a file that can be polled.
#[derive(Debug)]
pub struct Signals(File);

impl Signals {
    /// Blocks the signals, and collects them from now on.
    pub fn new() -> io::Result<Signals> {
        // SAFETY: the set is made by sigemptyset before it is read, and lives on
        // this stack frame during all calls that get its address.
        let fd = unsafe {
            let mut set = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGIO] {
                libc::sigaddset(&mut set, signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Signals(unsafe { File::from_raw_fd(fd) }))
    }

    pub fn next(&mut self) -> Option<Signal> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        if self.0.read(&mut info).ok()? != info.len() {
            return None;
        }
        // The first field of the structure is the signal's number.
        match u32::from_ne_bytes([info[0], info[1], info[2], info[3]]) as i32 {
            libc::SIGHUP => Some(Signal::Reload),
            libc::SIGIO => Some(Signal::Port),
            _ => Some(Signal::End),
        }
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Makes the kernel send [`Signal::Port`] when this file changes.
pub fn signal_changes(fd: RawFd) -> io::Result<()> {
    // SAFETY: both calls take numbers and touch no memory; the signal is blocked by
    // `Signals::new` before any file is open.
    if unsafe { libc::fcntl(fd, libc::F_SETOWN, libc::getpid()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    set_flags(fd, |flags| flags | libc::O_ASYNC)
}

pub fn signal_nothing(fd: RawFd) -> io::Result<()> {
    set_flags(fd, |flags| flags & !libc::O_ASYNC)
}

fn set_flags(fd: RawFd, change: impl Fn(i32) -> i32) -> io::Result<()> {
    // SAFETY: both calls take numbers and touch no memory.
    let done = unsafe {
        match libc::fcntl(fd, libc::F_GETFL) {
            -1 => -1,
            flags => libc::fcntl(fd, libc::F_SETFL, change(flags)),
        }
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Events to poll for on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to read.
    Input,
    /// Data to read, or room to write.
    InputOrRoom,
    /// An exceptional condition. A pressure trigger reports events in this way.
    Priority,
}

/// Events that occurred on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// The awaited data or condition is available.
    pub ready: bool,
    /// A write would be accepted, if the caller waits for this.
    pub writable: bool,
    /// The other side has closed, or the file is unusable.
    pub closed: bool,
}

/// Waits until a file is ready or the timeout has passed. Returns one result for each file.
pub fn wait<const N: usize>(
    files: [Option<(RawFd, Interest)>; N],
    timeout_ms: u64,
) -> io::Result<[Ready; N]> {
    let mut polled = files.map(|file| {
        let (fd, events) = match file {
            // poll skips a negative descriptor.
            None => (-1, 0),
            Some((fd, Interest::Input)) => (fd, libc::POLLIN),
            Some((fd, Interest::InputOrRoom)) => (fd, libc::POLLIN | libc::POLLOUT),
            Some((fd, Interest::Priority)) => (fd, libc::POLLPRI),
        };
        libc::pollfd { fd, events, revents: 0 }
    });
    let timeout = i32::try_from(timeout_ms).unwrap_or(i32::MAX);
    // SAFETY: the array outlives the call and its length is given with it.
    let found = unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, timeout) };
    if found < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok([Ready::default(); N]);
    }
    Ok(polled.map(|p| Ready {
        ready: p.revents & (libc::POLLIN | libc::POLLPRI) != 0,
        writable: p.revents & libc::POLLOUT != 0,
        closed: p.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0,
    }))
}

/// End of a pipe through which a daemon reports the result of its start.
#[derive(Debug)]
pub struct Starter(File);

impl Starter {
    /// Reports this exit code to the waiting starter.
    pub fn report(self, code: u8) {
        use std::io::Write;
        let mut pipe = self.0;
        // A starter that no longer waits must not stop the daemon.
        let _ = pipe.write_all(&[code]);
    }
}

/// Moves the daemon into the background, with a new session and no terminal. The call returns in
/// the child. The parent waits for [`Starter::report`] and exits with the reported code.
pub fn detach() -> io::Result<Starter> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors that are written.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors are new and have no other owner.
    let (mut from, to) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: the process has one thread, so the child may make any call.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(from);
            // SAFETY: setsid has no arguments; the child of a fork leads no group.
            if unsafe { libc::setsid() } < 0 {
                return Err(io::Error::last_os_error());
            }
            let null = File::options().read(true).write(true).open("/dev/null")?;
            for fd in 0..=2 {
                // SAFETY: both descriptors are open or replaced by an open one.
                if unsafe { libc::dup2(null.as_raw_fd(), fd) } < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(Starter(to))
        }
        _ => {
            drop(to);
            let mut code = [1];
            // A child that ended without a report has failed.
            let is_reported = from.read_exact(&mut code).is_ok();
            std::process::exit(if is_reported { i32::from(code[0]) } else { 1 });
        }
    }
}

/// Replaces this program by another one, with the same arguments. The other program's path is this
/// program's path plus `more`. The call returns only on an error. The function is not inlined,
/// because its large stack frame would then exist as long as the daemon.
#[inline(never)]
pub fn become_program(more: &CStr) -> io::Error {
    const WORDS_MAX: usize = 32;
    const ALL_MAX: usize = 4096;
    let (mut program, mut words) = ([0_u8; 1024], [0; ALL_MAX]);
    let more = more.to_bytes_with_nul();
    let room = program.len() - more.len();
    // SAFETY: the path ends in a zero, and no more is written than there is room for.
    let length =
        unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), program.as_mut_ptr().cast(), room) };
    let read = File::open("/proc/self/cmdline").and_then(|mut file| file.read(&mut words));
    let (Ok(length), Ok(all)) = (usize::try_from(length), read) else {
        return io::Error::last_os_error();
    };
    let words = &words[..all];
    if all == ALL_MAX || words.iter().filter(|byte| **byte == 0).count() > WORDS_MAX {
        return io::ErrorKind::ArgumentListTooLong.into();
    }
    program[length..length + more.len()].copy_from_slice(more);
    let mut pointers = [std::ptr::null::<libc::c_char>(); WORDS_MAX + 1];
    // A zero ends each argument.
    let starts = words.split_inclusive(|byte| *byte == 0);
    for (place, word) in pointers[..WORDS_MAX].iter_mut().zip(starts) {
        *place = word.as_ptr().cast();
    }
    // SAFETY: the name and the arguments end in a zero, the list in a null, and all of them outlive
    // the call.
    unsafe { libc::execv(program.as_ptr().cast(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Returns the milliseconds since the boot, including suspended time.
pub fn uptime_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives until the call returns. Every kernel since 2.6.39 has this clock.
    // Without it, the call would leave zeroes.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    let ms = i128::from(time.tv_sec) * 1000 + i128::from(time.tv_nsec) / 1_000_000;
    u64::try_from(ms).unwrap_or(0)
}

/// Returns the kernel's statistics of a file system.
pub fn filesystem(path: &CStr) -> io::Result<libc::statvfs> {
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends in a zero; the structure is filled where the call succeeds, and is
    // read only then.
    unsafe {
        match libc::statvfs(path.as_ptr(), found.as_mut_ptr()) {
            0 => Ok(found.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Returns the size of a file system, and the size of its available part, in KiB.
pub fn filesystem_kib(path: &CStr) -> io::Result<(u64, u64)> {
    let found = filesystem(path)?;
    let unit = u128::from(found.f_frsize as u64);
    let kib = |blocks: u128| u64::try_from(blocks * unit / 1024).unwrap_or(u64::MAX);
    Ok((kib(u128::from(found.f_blocks as u64)), kib(u128::from(found.f_bavail as u64))))
}

/// Makes the kernel reseed its random numbers from its pool at once, for all random devices. The
/// call needs CAP_SYS_ADMIN.
pub fn reseed(random: &File) -> io::Result<()> {
    // From linux/random.h: _IO('R', 0x07), which is the same on all known architectures.
    const RNDRESEEDCRNG: u16 = 0x5207;
    // SAFETY: this request takes no argument and touches no memory of ours.
    match unsafe { libc::ioctl(random.as_raw_fd(), RNDRESEEDCRNG.into()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn set_clock(time: Duration) -> io::Result<()> {
    let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // The types differ by architecture and C library. A value that does not fit is not a valid
    // time.
    let seconds = time.as_secs().try_into().map_err(io::Error::other)?;
    (spec.tv_sec, spec.tv_nsec) = (seconds, time.subsec_nanos() as _);
    // SAFETY: the structure lives until the call returns.
    match unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &spec) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the size of a kernel page in KiB. The kernel counts resident memory in pages.
pub fn page_kib() -> u64 {
    // SAFETY: the call takes a number and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).map_or(4, |bytes| bytes / 1024)
}

/// Returns a calendar time in the local time zone.
pub fn local_time(epoch_s: i64) -> Option<libc::tm> {
    // The type's width depends on the C library, and musl is about to change it.
    let time = epoch_s as _;
    let mut parts = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: localtime_r fills the structure or returns null; it is read only after success.
    unsafe {
        let is_filled = !libc::localtime_r(&time, parts.as_mut_ptr()).is_null();
        is_filled.then(|| parts.assume_init())
    }
}

/// Formats a time as C's `ctime` does, in the local time zone, without the newline. C's own
/// function would add all of `printf` to the program.
pub fn ctime(epoch_s: f64) -> String {
    let Some(tm) = local_time(epoch_s as i64) else { return String::new() };
    let name = |names: &[&'static str], at: i32| {
        usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or("???")
    };
    let (day, month) = (name(&DAYS, tm.tm_wday), name(&MONTHS, tm.tm_mon));
    let year = i64::from(tm.tm_year) + 1900;
    let (hour, minute, second) = (tm.tm_hour, tm.tm_min, tm.tm_sec);
    format!("{day} {month} {:2} {hour:02}:{minute:02}:{second:02} {year}", tm.tm_mday)
}

#[cfg(test)]
mod tests {
    use super::ctime;

    #[test]
    fn a_time_is_written_as_ctime_writes_it() {
        // The test must not depend on this machine's time zone.
        let text = ctime(1_000_000_000.0);
        let fields: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        assert!(matches!(fields[..], ["Sat" | "Sun", "Sep", "8" | "9", _, "2001"]), "{text}");
        assert!(text.contains("Sep  "), "{text}");
        assert_eq!((text.len(), fields[3].len()), (24, 8), "{text}");
    }
}
