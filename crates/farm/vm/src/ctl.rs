//! Runs commands in a guest, for tests and experiments.
//!
//! ```text
//!   host ► guest   one line, given to the guest's shell
//!   guest ► host   the output of the command, then  \x01 done CODE \n
//! ```

use std::fmt;
use std::io::Write;
use std::os::unix::net::UnixStream;

use crate::deadline::read_before;
use crate::{Deadline, Error, Mark};

/// Maximum size of the kept output of a command, in bytes. The beginning of longer output is
/// dropped.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The host's side of a guest's control channel.
#[derive(Debug)]
pub struct Ctl {
    stream: UnixStream,
    /// Bytes received after the last complete answer.
    buffer: Vec<u8>,
    mark: Mark,
    /// Number of commands that missed their deadline. The answers to these commands are still to
    /// come, and will be dropped.
    overdue: usize,
}

/// A command's output and exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Exit status. Values of 128 and more mean a signal.
    pub code: i32,
    /// Standard output and standard error.
    pub text: String,
}

impl Ctl {
    /// Creates the host's side from the control socket of a guest that was started with `ctl`.
    pub fn new(stream: UnixStream) -> Ctl {
        Ctl { stream, buffer: Vec::new(), mark: Mark::default(), overdue: 0 }
    }

    /// Runs one line in the guest's shell. The channel stays usable after a missed deadline,
    /// because the late answer is dropped before the next answer is read.
    pub fn run(&mut self, command: &str, deadline: Deadline) -> Result<Output, Error> {
        let wrong = |reason| Error::Ctl { command: command.to_owned(), reason };
        if command.contains(['\n', '\0']) {
            return Err(wrong("it is not one line"));
        }
        self.stream
            .write_all(format!("{command}\n").as_bytes())
            .map_err(|source| Error::Channel { channel: "ctl", source })?;
        self.overdue += 1;
        let waiting_for = format_args!("the end of guest command {command:?}");
        loop {
            let output = self.read_answer(deadline, &waiting_for)?;
            self.overdue -= 1;
            if self.overdue == 0 {
                return output.ok_or_else(|| wrong("the guest's answer has no exit status"));
            }
        }
    }

    /// Does the same as [`run`](Self::run), but returns an error if the command fails.
    pub fn succeed(&mut self, command: &str, deadline: Deadline) -> Result<String, Error> {
        let output = self.run(command, deadline)?;
        match output.code {
            0 => Ok(output.text),
            _ => Err(Error::Ctl { command: command.to_owned(), reason: "it failed" }),
        }
    }

    /// Reads the next answer. Returns `None` if the answer's end mark is malformed.
    fn read_answer(
        &mut self,
        deadline: Deadline,
        waiting_for: &dyn fmt::Display,
    ) -> Result<Option<Output>, Error> {
        let mut chunk = [0; 4096];
        let mut text = Vec::new();
        loop {
            let fed = self.mark.feed(&self.buffer);
            self.buffer.drain(..fed.used);
            text.extend(fed.text);
            if let Some(code) = fed.end {
                let text = String::from_utf8_lossy(&text).into_owned();
                return Ok(code.map(|code| Output { code, text }));
            }
            let excess = text.len().saturating_sub(OUTPUT_BYTES_MAX);
            text.drain(..excess);
            let count = read_before(&mut self.stream, &mut chunk, deadline, "ctl", waiting_for)?;
            self.buffer.extend_from_slice(&chunk[..count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::time::Duration;

    fn long() -> Deadline {
        Deadline::after(Duration::from_secs(60))
    }

    #[test]
    fn text_and_code_come_back() {
        let (ours, mut guest) = UnixStream::pair().unwrap();
        let mut ctl = Ctl::new(ours);
        guest.write_all(b"no newline\x01done 0\n\x01done 143\n").unwrap();
        let output = ctl.run("printf 'no newline'", long()).unwrap();
        assert_eq!(output, Output { code: 0, text: "no newline".into() });
        assert_eq!(ctl.run("kill $$", long()).unwrap(), Output { code: 143, text: "".into() });
        let mut lines = BufReader::new(guest).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "printf 'no newline'");
        assert_eq!(lines.next().unwrap().unwrap(), "kill $$");
    }

    #[test]
    fn a_late_answer_is_not_taken_for_the_next_one() {
        let (ours, mut guest) = UnixStream::pair().unwrap();
        let mut ctl = Ctl::new(ours);
        guest.write_all(b"slow beginning").unwrap();
        let error = ctl.run("slow", Deadline::after(Duration::from_millis(20))).unwrap_err();
        assert!(error.to_string().contains("slow"), "{error}");
        guest.write_all(b" and end\x01done 0\nfresh\x01done 7\n").unwrap();
        let output = ctl.run("fast", long()).unwrap();
        assert_eq!(output, Output { code: 7, text: "fresh".into() });
    }

    #[test]
    fn commands_and_answers_that_break_the_protocol_are_errors() {
        let (ours, mut guest) = UnixStream::pair().unwrap();
        let mut ctl = Ctl::new(ours);
        assert!(matches!(ctl.run("two\nlines", long()), Err(Error::Ctl { .. })));
        guest.write_all(b"x\x01done what\n\x01done 1\n").unwrap();
        assert!(matches!(ctl.run("a", long()), Err(Error::Ctl { .. })));
        assert!(matches!(ctl.succeed("false", long()), Err(Error::Ctl { .. })));
    }

    #[test]
    fn endless_output_keeps_its_end() {
        let (ours, mut guest) = UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            guest.write_all(&vec![b'x'; OUTPUT_BYTES_MAX * 2]).unwrap();
            guest.write_all(b"end\x01done 0\n").unwrap();
        });
        let text = Ctl::new(ours).succeed("yes", long()).unwrap();
        writer.join().unwrap();
        assert!(text.ends_with("xend"));
        assert!(text.len() <= OUTPUT_BYTES_MAX + 4096, "{}", text.len());
    }
}
