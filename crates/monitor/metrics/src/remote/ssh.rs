//! An ssh process with deadlines for reads and writes.

use crate::clock::Deadline;
use crate::remote::{Error, Uri};
use reactor::{read_some, write_some};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Maximum number of bytes kept of ssh's messages, enough for two warnings and the reason.
const SAID_MAX: usize = 2_000;
/// Time to wait for ssh's last messages after ssh has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The ssh process, which is killed when this value is dropped.
pub(crate) struct Ssh {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// ssh's standard error, until it is closed.
    errors: Option<ChildStderr>,
    said: Vec<u8>,
}

impl Ssh {
    pub(crate) fn start(uri: &Uri) -> Result<Ssh, Error> {
        let mut command = Command::new("ssh");
        command.args(uri.words());
        Ssh::spawn(command)
    }

    /// Starts the process that connects to the host.
    pub(crate) fn spawn(mut command: Command) -> Result<Ssh, Error> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::Start)?;
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::Start(ErrorKind::BrokenPipe.into()));
        };
        for fd in [input.as_fd(), output.as_fd(), errors.as_fd()] {
            fcntl_getfl(fd)
                .and_then(|flags| fcntl_setfl(fd, flags | OFlags::NONBLOCK))
                .map_err(io::Error::from)?;
        }
        Ok(Ssh { child, input, output, errors: Some(errors), said: Vec::new() })
    }

    /// Waits until bytes are received or some of `waiting` are sent. Returns the number of bytes
    /// sent, and the bytes received.
    pub(crate) fn turn(
        &mut self,
        waiting: &[u8],
        buffer: &mut [u8],
        until: Deadline,
    ) -> Result<(usize, usize), Error> {
        let wanted = if waiting.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds =
            vec![PollFd::new(&self.output, PollFlags::IN), PollFd::new(&self.input, wanted)];
        fds.extend(self.errors.as_ref().map(|errors| PollFd::new(errors, PollFlags::IN)));
        wait(&mut fds, until)?;
        let came: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        if came.get(2).is_some_and(|flags| !flags.is_empty()) {
            self.listen();
        }
        let read = if came[0].is_empty() { Ok(0) } else { read_some(&mut self.output, buffer) };
        let read = read.map_err(|error| self.ended(error))?;
        if read == 0 && came[1].intersects(PollFlags::ERR | PollFlags::HUP) {
            // The other end no longer reads, and nothing more is received.
            return Err(self.ended(ErrorKind::BrokenPipe.into()));
        }
        let is_ready = came[1].contains(PollFlags::OUT);
        let sent = if is_ready { write_some(&mut self.input, waiting) } else { Ok(0) };
        let sent = sent.map_err(|error| self.ended(error))?;
        Ok((sent, read))
    }

    /// Returns ssh's messages so far, in one line.
    pub(crate) fn said(&self) -> String {
        let text = String::from_utf8_lossy(&self.said);
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        base::plain(&lines.join("; "), SAID_MAX)
    }

    fn listen(&mut self) {
        let mut buffer = [0; 4096];
        let Some(errors) = &mut self.errors else { return };
        match read_some(errors, &mut buffer) {
            Ok(count) => {
                // The last message is the reason.
                self.said.extend(&buffer[..count]);
                let over = self.said.len().saturating_sub(SAID_MAX);
                self.said.drain(..over);
            }
            Err(_) => self.errors = None,
        }
    }

    fn ended(&mut self, error: io::Error) -> Error {
        if !matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) {
            return error.into();
        }
        let until = Deadline::within(LAST_WORDS);
        while let Some(errors) = &self.errors
            && until.left().is_some()
        {
            let mut fds = [PollFd::new(errors, PollFlags::IN)];
            if wait(&mut fds, until).is_err() {
                break;
            }
            if !fds[0].revents().is_empty() {
                self.listen();
            }
        }
        Error::Ended(self.said())
    }
}

/// Waits for one of these descriptors, until the deadline.
fn wait(fds: &mut [PollFd<'_>], until: Deadline) -> io::Result<()> {
    let left = Timespec::try_from(until.left().unwrap_or_default())
        .map_err(|_| ErrorKind::InvalidInput)?;
    match poll(fds, Some(&left)) {
        Err(rustix::io::Errno::INTR) => Ok(()),
        done => done.map(drop).map_err(io::Error::from),
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
