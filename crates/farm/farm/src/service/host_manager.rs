//! Connection of a host manager. While the connection is open, the manager controls the guests'
//! ports and balloons.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use manager::control::{AskNextTimer, NextTimer, decode_message, encode_message};
use reactor::{Lines, Received};

use crate::fleet::Fleet;

/// Maximum length of an unfinished line, in bytes.
const LINE_MAX: usize = 4 * 1024;

#[derive(Debug)]
pub(super) struct HostManager {
    pub(super) pid: u32,
    stream: UnixStream,
    lines: Lines,
}

impl HostManager {
    pub(super) fn new(pid: u32, stream: UnixStream) -> HostManager {
        HostManager { pid, stream, lines: Lines::default() }
    }

    /// Returns true if the manager is part of this process.
    pub(super) fn is_own(&self) -> bool {
        self.pid == std::process::id()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Requests a guest's next timer. The call does not block. If the manager does not read, the
    /// guest is parked without an answer.
    pub(super) fn ask_timer(&self, guest: &str) {
        let question = AskNextTimer { next_timer_of: guest.to_owned() };
        let _ = (&self.stream).write(&encode_message(&question));
    }

    /// Handles answers of the manager. Returns false if the connection has ended.
    pub(super) fn turn(&mut self, fleet: &mut Fleet) -> bool {
        let received = self.lines.read(&self.stream);
        while let Some(line) = self.lines.next_line() {
            if let Some(NextTimer { next_timer_of, in_ms }) = decode_message(&line) {
                fleet.timer_is(&next_timer_of, in_ms);
            }
        }
        match received {
            Ok(Received::End) | Err(_) => false,
            Ok(Received::Nothing | Received::Bytes(_)) => self.lines.len() <= LINE_MAX,
        }
    }
}
