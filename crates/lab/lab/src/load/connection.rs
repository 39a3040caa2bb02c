//! One request on one connection: connect, send and receive, without blocking.

use crate::load::Failure;
use crate::load::http::{Answer, Wrong};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

/// Maximum number of reads of one connection in one turn. A server that never stops sending must
/// not delay the other connections.
const READS_MAX: usize = 16;

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    /// The response is complete, with this status.
    Answered(u16),
    Failed(Failure),
    /// The server had closed this reused connection before the request. The request must be
    /// repeated on a new connection.
    Stale,
}

#[derive(Debug)]
pub(crate) struct Exchange {
    stream: TcpStream,
    /// Bytes of the request sent so far; `None` during the connect.
    sent: Option<usize>,
    answer: Answer,
    /// True if the connection served an earlier request.
    is_old: bool,
    has_read: bool,
}

impl Exchange {
    pub(crate) fn connect(address: SocketAddr) -> Result<Exchange, Failure> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)
            .map_err(|error| failure(&error.into()))?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(failure(&error.into())),
        }
        let stream = TcpStream::from(socket);
        let answer = Answer::default();
        Ok(Exchange { stream, sent: None, answer, is_old: false, has_read: false })
    }

    pub(crate) fn again(stream: TcpStream) -> Exchange {
        let answer = Answer::default();
        Exchange { stream, sent: Some(0), answer, is_old: true, has_read: false }
    }

    /// Returns the poll events to wait for while `request` is sent.
    pub(crate) fn wants(&self, request: &[u8]) -> PollFlags {
        match self.sent {
            Some(sent) if sent >= request.len() => PollFlags::IN,
            _ => PollFlags::OUT,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(crate) fn body_bytes(&self) -> u64 {
        self.answer.body_bytes()
    }

    /// Returns the connection, if it may serve another request.
    pub(crate) fn into_kept(self) -> Option<TcpStream> {
        self.answer.is_kept_alive().then_some(self.stream)
    }

    /// Continues as far as possible.
    pub(crate) fn turn(&mut self, request: &[u8], buffer: &mut [u8]) -> Step {
        let step = self.go_on(request, buffer);
        let is_stale = self.is_old && !self.has_read;
        match step {
            Step::Failed(Failure::Reset | Failure::Closed) if is_stale => Step::Stale,
            step => step,
        }
    }

    fn go_on(&mut self, request: &[u8], buffer: &mut [u8]) -> Step {
        let mut sent = match self.sent {
            Some(sent) => sent,
            None => match self.stream.take_error() {
                // Small requests are sent immediately, because a delay would gain nothing.
                Ok(None) => match self.stream.set_nodelay(true) {
                    Ok(()) => 0,
                    Err(error) => return Step::Failed(failure(&error)),
                },
                Ok(Some(error)) | Err(error) => return Step::Failed(failure(&error)),
            },
        };
        while let Some(rest) = request.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.sent = Some(sent);
                    return Step::More;
                }
                Err(error) => return Step::Failed(failure(&error)),
            }
        }
        self.sent = Some(sent);
        self.read(buffer)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Step {
        for _ in 0..READS_MAX {
            let count = match self.stream.read(buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::More,
                Err(error) => return Step::Failed(failure(&error)),
            };
            let status = if count == 0 {
                self.answer.end().map(Some)
            } else {
                self.has_read = true;
                self.answer.feed(buffer.get(..count).unwrap_or_default())
            };
            match status {
                Ok(None) => {}
                Ok(Some(status)) => return Step::Answered(status),
                Err(Wrong::Cut) => return Step::Failed(Failure::Closed),
                Err(_) => return Step::Failed(Failure::Malformed),
            }
        }
        Step::More
    }
}

fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::ConnectionRefused => Failure::Refused,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            Failure::Reset
        }
        ErrorKind::TimedOut => Failure::Timeout,
        _ => match Errno::from_io_error(error) {
            Some(
                Errno::ADDRNOTAVAIL | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM,
            ) => Failure::Exhausted,
            _ => Failure::Other,
        },
    }
}
