//! One client: its requests, its waiting responses, and its timeouts.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use reactor::Budget;
use reactor::{Lines, Outbox, Received};
use rustix::event::PollFlags;

/// Requests per second of a client. A screen drawn ten times a second sends 20.
const REQUESTS_A_SECOND: u64 = 50;
/// Maximum number of a client's requests in a burst.
const REQUESTS_BURST: u64 = 100;
/// Maximum number of a client's open requests. At this limit no more input is read from the client
/// until a request is answered.
const OPEN_MAX: usize = 8;
/// Maximum number of bytes that wait to be sent to a client. A response about a thousand guests has
/// about a megabyte, and each open request may get such a response.
pub(super) const OUT_MAX: usize = 8 << 20;
/// Number of unsent response bytes above which a client's next requests are not read.
const OUT_FULL: usize = 64 * 1024;
/// Time after which a silent client is disconnected.
const IDLE_MS: u64 = 60_000;
/// Time after which a client that reads none of its waiting responses is disconnected.
const UNREAD_MS: u64 = 10_000;

/// The process at the other end, as recorded by the kernel when the connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process ID. It is 0 for a process in a PID namespace that is invisible here.
    pub pid: u32,
    /// User ID.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
}

/// Reason for a client's disconnection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Left,
    Idle,
    Unread,
    Flood,
    LongLine,
    /// The client had been idle longest when a new client needed a place.
    Displaced,
}

impl Gone {
    /// Returns the reason as a clause of a sentence for the operator; `None` if there is nothing to
    /// report.
    pub(super) fn why(self) -> Option<&'static str> {
        match self {
            Gone::Left | Gone::Idle => None,
            Gone::Unread => Some("it did not read its responses"),
            Gone::Flood => Some("it sent too many requests"),
            Gone::LongLine => Some("its request had no end of line"),
            Gone::Displaced => Some("it was idle, and another client needed the place"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: UnixStream,
    pub(super) peer: Peer,
    input: Lines,
    line_max: usize,
    out: Outbox,
    /// Requests without a response.
    pub(super) open: usize,
    budget: Budget,
    pub(super) active_ms: u64,
    /// Time at which the client last read some output, or at which no output waited.
    taken_ms: u64,
    /// True if the client sends no more requests. It may still read.
    ended: bool,
}

impl Client {
    pub(super) fn new(stream: UnixStream, peer: Peer, line_max: usize, now_ms: u64) -> Client {
        Client {
            stream,
            peer,
            input: Lines::default(),
            line_max,
            out: Outbox::default(),
            open: 0,
            budget: Budget::new(REQUESTS_A_SECOND, REQUESTS_BURST, now_ms),
            active_ms: now_ms,
            taken_ms: now_ms,
            ended: false,
        }
    }

    /// Returns true if the client has no open request, and no part of a response waits to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.open == 0 && self.out.is_empty()
    }

    /// Closes the connection. With unsent output, the connection is also shut down for other
    /// handles, such as a lease. The client then notices that the response is incomplete.
    pub(super) fn close(self) {
        if !self.out.is_empty() {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn flags(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        if !self.ended && self.has_room() {
            flags |= PollFlags::IN;
        }
        if !self.out.is_empty() {
            flags |= PollFlags::OUT;
        }
        flags
    }

    fn has_room(&self) -> bool {
        self.open < OPEN_MAX && self.out.len() <= OUT_FULL
    }

    /// Returns the time at which the client times out if nothing happens before.
    pub(super) fn until_ms(&self) -> u64 {
        if !self.out.is_empty() {
            self.taken_ms.saturating_add(UNREAD_MS)
        } else if self.open > 0 {
            u64::MAX
        } else {
            self.active_ms.saturating_add(IDLE_MS)
        }
    }

    /// Reads nothing more. The client is dropped after its response.
    pub(super) fn leaves_input(&mut self) {
        self.ended = true;
    }

    pub(super) fn turn(&mut self, flags: PollFlags, now_ms: u64) -> Result<(), Gone> {
        if flags.contains(PollFlags::HUP) || flags.contains(PollFlags::ERR) {
            return Err(Gone::Left);
        }
        self.budget.refill(now_ms);
        self.send(now_ms)?;
        if !self.ended && self.has_room() {
            self.receive(now_ms)?;
        }
        if self.ended && self.open == 0 && self.out.is_empty() && !self.input.has_line() {
            return Err(Gone::Left);
        }
        if now_ms >= self.until_ms() {
            return Err(if self.out.is_empty() { Gone::Idle } else { Gone::Unread });
        }
        Ok(())
    }

    fn receive(&mut self, now_ms: u64) -> Result<(), Gone> {
        // The stored input stays below two lines, however much the client sends at once.
        if self.input.len() > self.line_max {
            return if self.input.has_line() { Ok(()) } else { Err(Gone::LongLine) };
        }
        match self.input.read(&self.stream) {
            Ok(Received::End) => self.ended = true,
            Ok(Received::Bytes(_)) => self.active_ms = now_ms,
            Ok(Received::Nothing) => {}
            Err(_) => return Err(Gone::Left),
        }
        if self.input.len() > self.line_max && !self.input.has_line() {
            return Err(Gone::LongLine);
        }
        Ok(())
    }

    /// Returns the next line without its end, if the client may be served. The line counts as an
    /// open request until its response.
    pub(super) fn next_line(&mut self) -> Result<Option<Vec<u8>>, Gone> {
        loop {
            if !self.has_room() {
                return Ok(None);
            }
            let Some(line) = self.input.next_line() else { return Ok(None) };
            if self.budget.left() == 0 {
                return Err(Gone::Flood);
            }
            // Empty lines count as well, because a client could flood the server with empty lines.
            self.budget.spend(1);
            let line = line.trim_ascii();
            if !line.is_empty() {
                self.open += 1;
                return Ok(Some(line.to_vec()));
            }
        }
    }

    /// Returns true if a line can be served without new input.
    pub(super) fn has_more(&self) -> bool {
        self.has_room() && self.input.has_line()
    }

    /// Queues a response, which is sent in this turn or a later one.
    pub(super) fn answer(&mut self, line: &[u8], now_ms: u64) -> Result<(), Gone> {
        self.open = self.open.saturating_sub(1);
        if self.out.len().saturating_add(line.len()) > OUT_MAX {
            return Err(Gone::Unread);
        }
        if self.out.is_empty() {
            self.taken_ms = now_ms;
        }
        self.out.push(line);
        self.active_ms = self.active_ms.max(now_ms);
        self.send(now_ms)
    }

    fn send(&mut self, now_ms: u64) -> Result<(), Gone> {
        if self.out.send(&self.stream).map_err(|_| Gone::Left)? > 0 {
            self.taken_ms = now_ms;
        }
        Ok(())
    }
}
