//! A child process that never outlives this process.
//!
//! Linux kills such a child when the *thread* that started it ends, even if the process continues.
//! A guest started by a worker of a thread pool would die with that worker. Therefore one thread,
//! which lives as long as the process, starts all children.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, kill_process, pidfd_open, setrlimit,
};

use crate::images;
use crate::{Deadline, Error, spare, sys};

/// Maximum number of bytes kept of a child's standard error. The beginning is kept, because it
/// names the cause of a failure.
pub const STDERR_BYTES_MAX: usize = 16 * 1024;

/// A running child, which is killed and reaped on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stderr: File,
}

struct Request {
    command: Command,
    /// Descriptors that the child inherits. This process holds the descriptors open until the child
    /// has started.
    inherited: Vec<OwnedFd>,
    answer: Sender<io::Result<Child>>,
}

static STARTER: LazyLock<Mutex<Option<Sender<Request>>>> =
    LazyLock::new(|| Mutex::new(run_starter().ok()));

fn run_starter() -> io::Result<Sender<Request>> {
    let (sender, requests) = mpsc::channel::<Request>();
    thread::Builder::new().name("starter".to_owned()).spawn(move || {
        // The static variable above owns the sender, so this loop ends only with the process.
        for mut request in requests {
            let result = request.command.spawn();
            drop(request.inherited);
            // If the caller no longer waits, the child has no owner and must be killed.
            if let Err(mpsc::SendError(Ok(mut orphan))) = request.answer.send(result) {
                let _ = orphan.kill();
                let _ = orphan.wait();
            }
        }
    })?;
    Ok(sender)
}

/// Raises this process's limit of open files to the hard limit. Each guest needs some ten files,
/// and a shell's default limit is about a thousand.
pub fn raise_files() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

impl Process {
    /// Starts a command in its own session. Ctrl-C on the terminal then reaches only the calling
    /// process, and the child cannot inject input into the terminal. The child keeps `inherited`
    /// open under the same numbers.
    pub fn start(command: Command, inherited: Vec<OwnedFd>) -> io::Result<Process> {
        Process::start_reading(Stdio::null(), command, inherited)
    }

    /// Does the same as [`start`](Self::start), with a standard input.
    pub(crate) fn start_reading(
        stdin: Stdio,
        mut command: Command,
        inherited: Vec<OwnedFd>,
    ) -> io::Result<Process> {
        let stderr = bounded_file(STDERR_BYTES_MAX as u64)?;
        command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::from(stderr.try_clone()?));
        sys::own_session(&mut command);
        images::bind_child(&mut command, inherited.iter().map(AsRawFd::as_raw_fd).collect());
        let (answer, child) = mpsc::channel();
        let request = Request { command, inherited, answer };
        let no_starter = || io::Error::other("no thread that could start it");
        STARTER
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .and_then(|starter| starter.send(request).ok())
            .ok_or_else(no_starter)?;
        let child = child.recv().map_err(|_| no_starter())??;
        spare::expose(child.id());
        Ok(Process { child, stderr })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the child has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for the child's end until the deadline, and returns its exit status if it has ended.
    pub fn wait(&mut self, deadline: Deadline) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            let Some(left) = deadline.remaining() else { return Ok(None) };
            match wait_for_exit(self.id(), left) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }

    /// Returns a descriptor that is readable when the child has ended.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?)
    }

    /// Checks that a guest's QEMU still runs. The error contains QEMU's exit status and standard
    /// error.
    pub fn check(&mut self, guest: &str) -> Result<(), Error> {
        let failed = |source| images::Error::Spawn { program: "QEMU".into(), source };
        match self.try_wait().map_err(failed)? {
            None => Ok(()),
            Some(status) => {
                Err(Error::QemuExited { guest: guest.to_owned(), status, stderr: self.stderr() })
            }
        }
    }

    /// Stops all threads of the child until [`go_on`](Self::go_on) is called. A stopped child can
    /// still be killed.
    pub fn pause(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::STOP)?)
    }

    /// Resumes the child's threads.
    pub fn go_on(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    /// Kills the child without waiting for its end.
    pub fn strike(&mut self) {
        // A child that has already ended needs no signal.
        let _ = self.child.kill();
    }

    /// Kills the child and waits for its end.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Returns the beginning of the child's standard error.
    pub fn stderr(&self) -> String {
        let mut bytes = vec![0; STDERR_BYTES_MAX];
        let count = self.stderr.read_at(&mut bytes, 0).unwrap_or(0);
        let end = bytes[..count].iter().position(|&byte| byte == 0).unwrap_or(count);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// Creates a file without a name that can grow to exactly `size_bytes`. Writes past this size fail.
/// A child's output can thus be kept for any time, without a thread that reads it.
fn bounded_file(size_bytes: u64) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("stderr", flags)?);
    file.set_len(size_bytes)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

/// Waits until a process has ended or the timeout has passed. Returns true if the process has ended
/// or never existed. The process need not be a child. A child still has to be reaped afterwards.
pub fn wait_for_exit(pid: u32, timeout: Duration) -> io::Result<bool> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pidfd = match pidfd_open(pid.ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(true),
        opened => opened?,
    };
    wait_for_end(&pidfd, timeout)
}

/// Waits until the process of this descriptor ends, and returns true if it ends before the timeout.
pub fn wait_for_end(process: &OwnedFd, timeout: Duration) -> io::Result<bool> {
    // A timeout that exceeds the kernel's range is treated as infinite.
    let timeout = Timespec::try_from(timeout).ok();
    let ended = poll(&mut [PollFd::new(process, PollFlags::IN)], timeout.as_ref())?;
    Ok(ended == 1)
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn words_end_and_status_are_kept() {
        let mut process = Process::start(shell("echo broken >&2; exit 3"), vec![]).unwrap();
        let status = process.wait(Deadline::after(Duration::from_secs(60))).unwrap().unwrap();
        assert_eq!((status.code(), process.stderr().as_str()), (Some(3), "broken\n"));
    }

    #[test]
    fn endless_words_neither_block_nor_grow() {
        let script = "i=0; while [ $i -lt 5000 ]; do echo 12345678 >&2 || :; i=$((i+1)); done";
        let mut process = Process::start(shell(script), vec![]).unwrap();
        assert!(process.wait(Deadline::after(Duration::from_secs(60))).unwrap().is_some());
        assert_eq!(process.stderr().len(), STDERR_BYTES_MAX);
    }

    /// The child must outlive the thread that requested it.
    #[test]
    fn child_outlives_its_requesting_thread_but_not_its_owner() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let starting = thread::spawn(move || {
            let theirs = OwnedFd::from(theirs);
            // Perl, because a shell may accept only descriptors of one digit.
            let script = "open(F, '>&=', shift) or die; syswrite(F, \"up\\n\"); sleep(1000)";
            let mut command = Command::new("perl");
            command.args(["-e", script, &theirs.as_raw_fd().to_string()]);
            Process::start(command, vec![theirs]).unwrap()
        });
        let process = starting.join().unwrap();
        let mut words = [0; 3];
        ours.read_exact(&mut words).unwrap();
        assert_eq!(&words, b"up\n");
        let pid = process.id();
        assert!(!wait_for_exit(pid, Duration::from_millis(50)).unwrap());
        drop(process);
        assert!(wait_for_exit(pid, Duration::ZERO).unwrap());
        assert_eq!(ours.read(&mut words).unwrap(), 0, "no other process has the child's socket");
    }

    /// A process with this process's terminal can type into it, and the user's shell would run the
    /// typed commands.
    #[test]
    fn finding_03_a_child_has_a_session_of_its_own_and_no_terminal() {
        let script = "cat /proc/$$/stat >&2; (: < /dev/tty) && echo terminal >&2";
        let mut process = Process::start(shell(script), vec![]).unwrap();
        process.wait(Deadline::after(Duration::from_secs(60))).unwrap().unwrap();
        let text = process.stderr();
        assert!(!text.contains("\nterminal"), "{text}");
        let stat = text.lines().next().and_then(|line| line.rsplit_once(") ")).unwrap().1;
        // The process's state, parent, group, session, terminal.
        let numbers: Vec<&str> = stat.split(' ').skip(2).take(3).collect();
        let own = process.id().to_string();
        assert_eq!(numbers, [&own, &own, "0"], "group, session and terminal");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let error = Process::start(Command::new("no-such-program"), vec![]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

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
    fn the_end_of_a_process_is_seen() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(!wait_for_exit(child.id(), Duration::from_millis(1)).unwrap());
        child.kill().unwrap();
        assert!(wait_for_exit(child.id(), Duration::from_secs(60)).unwrap());
        child.wait().unwrap();
        assert!(wait_for_exit(child.id(), Duration::ZERO).unwrap());
    }
}
