//! Evidence about a hanging guest, saved before its QEMU is killed.
//!
//! ```text
//!   monitor ─► registers, twice: do the CPUs loop at the same place?
//!           └► memory ─► the kernel's log       CACHE/hangs/NAME-PID/
//!   /proc   ─► QEMU's threads: what they wait for, how much they ran
//!   gdb     ─► stacks of these threads, if gdb is installed and QEMU runs as our user
//!   console, QEMU's standard error
//! ```
//!
//! If a part cannot be read, its file contains the reason instead.

use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use qmp::Reply;
use rustix::process::geteuid;

use crate::images::{Cache, FileContext, by_age, create_dir};
use crate::{Deadline, Error, GuestSpec, Monitor, Process, wait_for_exit};

/// A guest that hangs.
#[derive(Debug)]
pub struct Hung {
    /// Name of the guest.
    pub name: String,
    /// Process id of the guest's QEMU.
    pub pid: u32,
    /// Memory of the guest, in MiB.
    pub memory_mib: u64,
    /// Last output of the guest's console.
    pub console: String,
    /// Standard error of the guest's QEMU.
    pub stderr: String,
}

impl Hung {
    /// Describes a guest while its QEMU still runs.
    pub fn new(spec: &GuestSpec, process: &Process, console: String) -> Hung {
        let (name, memory_mib) = (spec.name.clone(), spec.memory_mib);
        Hung { name, pid: process.id(), memory_mib, console, stderr: process.stderr() }
    }
}

/// Number of directories kept. Older directories are removed.
const KEPT: usize = 16;
/// Timeout for an answer of the monitor.
const ANSWER: Duration = Duration::from_secs(10);
/// Time between two reads of the registers. After this time a CPU that makes progress executes
/// other code.
const BETWEEN: Duration = Duration::from_secs(1);
/// Time limit for the debugger, which is killed afterwards.
const DEBUGGER: Duration = Duration::from_secs(30);
/// Size of the part of the guest's memory that is searched, in MiB. A kernel and its log are at the
/// beginning of memory.
const SEARCHED_MIB: u64 = 128;

/// Writes the evidence into a new directory and returns its path. The call takes some seconds.
pub fn keep(hung: &Hung, monitor: &mut Monitor) -> Result<PathBuf, Error> {
    let hangs = Cache::from_environment()?.root().join("hangs");
    let directory = hangs.join(format!("{}-{}", hung.name, hung.pid));
    create_dir(&hangs)?;
    remove_old(&hangs);
    create_dir(&directory)?;
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).file("write", &path)
    };
    put("console", &hung.console)?;
    put("qemu", &hung.stderr)?;
    put("status", &ask(monitor, "info status"))?;
    put("registers-1", &ask(monitor, "info registers -a"))?;
    put("threads-1", &threads(hung.pid))?;
    // If QEMU exits during the wait, the wait ends early.
    let _ = wait_for_exit(hung.pid, BETWEEN);
    put("registers-2", &ask(monitor, "info registers -a"))?;
    put("threads-2", &threads(hung.pid))?;
    put("kernel-log", &log_in_memory(hung, monitor))?;
    stacks(hung.pid, &directory.join("stacks"))?;
    Ok(directory)
}

fn ask(monitor: &mut Monitor, line: &str) -> String {
    let line = line.to_owned();
    match monitor.call(qmp::Command::Human { line }, Deadline::after(ANSWER)) {
        Ok(Reply::Text(text)) => text,
        Ok(other) => format!("QEMU answers {other:?}\n"),
        Err(error) => format!("{error}\n"),
    }
}

/// Returns the state of QEMU's threads from `/proc`. Only root may read the threads' kernel stacks
/// there.
fn threads(pid: u32) -> String {
    let mut text = String::new();
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return text };
    for task in tasks.flatten() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "thread {}", task.file_name().display());
        for name in ["comm", "stat", "schedstat", "wchan", "stack"] {
            let found = fs::read_to_string(task.path().join(name));
            let found = found.unwrap_or_else(|error| error.to_string());
            let _ = writeln!(text, "  {name}: {}", found.trim().replace('\n', "\n    "));
        }
    }
    text
}

/// Writes the stacks of QEMU's threads, if a debugger is installed. The debugger does not attach to
/// a QEMU of another user. A guest may control such a QEMU, and thus the data that root's debugger
/// would read.
fn stacks(pid: u32, path: &Path) -> Result<(), Error> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    if !has_only_ids(&status, geteuid().as_raw()) {
        let reason = "not examined by gdb: the process belongs to another user\n";
        return Ok(fs::write(path, reason).file("write", path)?);
    }
    let file = File::create(path).file("create", path)?;
    let stderr = file.try_clone().file("use", path)?;
    let mut debugger = Command::new("gdb");
    debugger.args(["-nx", "-batch", "-ex", "thread apply all backtrace 24", "-p"]);
    debugger.arg(pid.to_string()).stdin(Stdio::null()).stdout(file).stderr(stderr);
    let Ok(mut child) = debugger.spawn() else {
        return Ok(fs::write(path, "gdb is not installed\n").file("write", path)?);
    };
    if !matches!(wait_for_exit(child.id(), DEBUGGER), Ok(true)) {
        // QEMU is stopped while the debugger is attached, and continues once the debugger is
        // killed.
        let _ = child.kill();
    }
    let _ = child.wait();
    Ok(())
}

/// Returns true if all user ids in `/proc/PID/status` are this user's. The owner of the files in
/// `/proc/PID` proves less, because a process can make root their owner.
fn has_only_ids(status: &str, user: u32) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut ids = ids.split_ascii_whitespace().map(str::parse).peekable();
    ids.peek().is_some() && ids.all(|id| id == Ok(user))
}

/// Returns the kernel's log from the guest's memory, because a hanging kernel writes its log
/// nowhere else. QEMU may not write a dump to a file. The monitor therefore returns the memory's
/// address, and the memory is read from QEMU's process.
fn log_in_memory(hung: &Hung, monitor: &mut Monitor) -> String {
    let answer = ask(monitor, "gpa2hva 0");
    let Some(address) = address(&answer) else { return answer };
    let mut memory = vec![0; (hung.memory_mib.min(SEARCHED_MIB) << 20) as usize];
    let process = File::open(format!("/proc/{}/mem", hung.pid));
    match process.and_then(|process| process.read_exact_at(&mut memory, address)) {
        Ok(()) => kernel_log(&memory).unwrap_or_else(|| "not found in memory\n".to_owned()),
        Err(error) => format!("its memory cannot be read: {error}\n"),
    }
}

/// Returns the address in `Host virtual address for 0x0 (pc.ram) is 0x7f0123400000`.
pub fn address(answer: &str) -> Option<u64> {
    let (_, digits) = answer.trim().rsplit_once(" is 0x")?;
    u64::from_str_radix(digits, 16).ok()
}

/// The first words of a kernel's log.
const FIRST_WORDS: &[u8] = b"Linux version ";
/// Maximum number of bytes between two texts of the log. The kernel stores the number of each text
/// there.
const GAP_MAX: usize = 24;
/// Minimum length of a text. A shorter text is probably a number that looks like text.
const TEXT_MIN: usize = 4;

/// Maximum number of places that are examined as the beginning of a log. A guest may fill its
/// memory with the first words of a log.
const STARTS_MAX: usize = 64;
/// Maximum number of bytes examined after the beginning of a log.
pub const LOG_BYTES_MAX: usize = 1 << 20;

/// Returns the longest run of texts that begins like a kernel's log. The first words also occur
/// elsewhere in a kernel, but without texts behind them.
pub fn kernel_log(memory: &[u8]) -> Option<String> {
    let starts = memory.windows(FIRST_WORDS.len()).enumerate();
    let starts = starts.filter(|(_, words)| *words == FIRST_WORDS).map(|(at, _)| at);
    let logs = starts.take(STARTS_MAX).map(|at| &memory[at..memory.len().min(at + LOG_BYTES_MAX)]);
    logs.map(texts).max_by_key(String::len)
}

/// Returns the texts from the start of `memory` until a gap, one text per line.
fn texts(memory: &[u8]) -> String {
    let mut lines = String::new();
    let mut gap = 0;
    for part in memory.split(|&byte| byte != b'\n' && !(b' '..=b'~').contains(&byte)) {
        if part.len() >= TEXT_MIN {
            gap = 0;
            lines.push_str(&String::from_utf8_lossy(part));
            lines.push('\n');
        } else {
            gap += part.len() + 1;
        }
        if gap > GAP_MAX {
            break;
        }
    }
    lines
}

/// Removes the oldest directories, so that there is room for one more.
fn remove_old(hangs: &Path) {
    let mut found = by_age(hangs, Metadata::modified).unwrap_or_default();
    found.truncate((found.len() + 1).saturating_sub(KEPT));
    for (_, path) in found {
        // A directory that cannot be removed is no reason to lose the new one.
        let _ = fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn a_kernels_log_is_found_in_its_memory() {
        let mut memory = b"junk\0\0Linux version %s\0".to_vec();
        memory.extend([0; 64]);
        for (id, text) in ["Linux version 6.1.0", "Command line: quiet", "x86/fpu: x87 FPU"]
            .into_iter()
            .enumerate()
        {
            memory.extend((id as u64 + u64::from(b'A')).to_le_bytes());
            memory.extend(text.as_bytes());
            memory.resize(memory.len().next_multiple_of(8), 0);
        }
        memory.extend([0; 64]);
        memory.extend(b"something else");
        let log = "Linux version 6.1.0\nCommand line: quiet\nx86/fpu: x87 FPU\n";
        assert_eq!(kernel_log(&memory).as_deref(), Some(log));
        assert_eq!(kernel_log(b"nothing of the kind"), None);
    }

    /// If the whole memory was read at each of these places, the search would take hours.
    #[test]
    fn finding_03_a_memory_full_of_first_words_is_soon_read() {
        let memory = FIRST_WORDS.repeat((16 << 20) / FIRST_WORDS.len());
        let (done, reader) = mpsc::channel();
        thread::spawn(move || done.send(kernel_log(&memory)));
        let log = reader.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(log.len(), LOG_BYTES_MAX + 1, "and a line end");
    }

    /// A debugger parses data of the process that it examines, and root's debugger may do
    /// everything.
    #[test]
    fn finding_03_no_debugger_looks_at_another_user() {
        if !rustix::process::geteuid().is_root() {
            base::skipped!("a process that is not root cannot become another user");
            return;
        }
        let dir = crate::Scratch::new("stacks").unwrap();
        let path = dir.join("stacks");
        let mut other = Command::new("sleep");
        let mut other = other.arg("1000").uid(65534).gid(65534).spawn().unwrap();
        stacks(other.id(), &path).unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "not examined by gdb: the process belongs to another user\n");
    }

    #[test]
    fn ids_that_differ_are_not_ours() {
        assert!(has_only_ids("Name:\tx\nUid:\t7\t7\t7\t7\nGid:\t9\t9\t9\t9\n", 7));
        for other in ["Uid:\t0\t7\t0\t0\n", "Uid:\t7\t7\t7\t7\n", "Uid:\n", ""] {
            assert!(!has_only_ids(other, 0), "{other}");
        }
    }

    #[test]
    fn an_address_is_read_and_what_is_none_is_not() {
        let found = address("Host virtual address for 0x0 (pc.ram) is 0x7f12a0000000\r\n");
        assert_eq!(found, Some(0x7f12_a000_0000));
        for none in ["No memory is mapped at address 0x0", "it is 0x", "is 0xzz", ""] {
            assert_eq!(address(none), None, "{none}");
        }
    }

    #[test]
    fn the_oldest_are_removed() {
        let root = crate::Scratch::new("vm-hangs").unwrap();
        for number in 0..KEPT + 3 {
            fs::create_dir_all(root.join(number.to_string())).unwrap();
        }
        remove_old(root.path());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), KEPT - 1);
    }

    #[test]
    fn a_process_has_threads() {
        let text = threads(std::process::id());
        assert!(text.contains("schedstat: ") && text.contains("wchan: "), "{text}");
    }
}
