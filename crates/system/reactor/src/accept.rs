//! Accepts clients of a listening socket, a few in each turn, with a pause when descriptors run
//! out.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;
use rustix::net::{SocketFlags, accept_with};

/// Clients accepted in one turn, so that other descriptors are served too.
pub const ACCEPTS_A_TURN: usize = 8;
/// Pause after a client could not be accepted because descriptors ran out. Without this pause, poll
/// would report the client again at once.
const PAUSE_MS: u64 = 1000;

/// Accepts a client of a listening socket, of any address family, because all byte streams are used
/// alike.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<UnixStream> {
    Ok(accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?.into())
}

/// The state of a listening socket: accepting or paused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acceptor {
    paused_until_ms: Option<u64>,
}

/// The result of one turn.
#[derive(Debug)]
pub struct Accepted<S> {
    /// New clients.
    pub streams: Vec<S>,
    /// The reason for a pause that starts now, if there is one.
    pub error: Option<io::Error>,
}

impl Acceptor {
    /// Returns the events to poll the listening socket for.
    pub fn flags(&self) -> PollFlags {
        match self.paused_until_ms {
            Some(_) => PollFlags::empty(),
            None => PollFlags::IN,
        }
    }

    /// Returns the end of the pause.
    pub fn next_ms(&self) -> Option<u64> {
        self.paused_until_ms
    }

    /// Accepts clients until no client waits, or the limit of a turn is reached.
    pub fn turn<S>(
        &mut self,
        now_ms: u64,
        mut accept: impl FnMut() -> io::Result<S>,
    ) -> Accepted<S> {
        let mut accepted = Accepted { streams: Vec::new(), error: None };
        if self.paused_until_ms.is_some_and(|until| now_ms < until) {
            return accepted;
        }
        self.paused_until_ms = None;
        for _ in 0..ACCEPTS_A_TURN {
            match accept() {
                Ok(stream) => accepted.streams.push(stream),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break,
                    // The client has left while it waited.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => {
                        self.paused_until_ms = Some(now_ms.saturating_add(PAUSE_MS));
                        accepted.error = Some(error);
                        break;
                    }
                },
            }
        }
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_takes_its_share_and_a_failure_pauses() {
        let mut acceptor = Acceptor::default();
        assert_eq!(acceptor.turn(0, || Ok(())).streams.len(), ACCEPTS_A_TURN);
        let none = acceptor.turn(0, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        assert!(none.streams.is_empty() && none.error.is_none());
        let aborted = acceptor.turn(0, || Err::<(), _>(io::ErrorKind::ConnectionAborted.into()));
        assert!(aborted.error.is_none());
        assert_eq!(acceptor.flags(), PollFlags::IN);
        let failed = acceptor.turn(5, || Err::<(), _>(io::Error::from_raw_os_error(24)));
        assert!(failed.error.is_some());
        assert_eq!((acceptor.flags(), acceptor.next_ms()), (PollFlags::empty(), Some(1005)));
        assert!(acceptor.turn(1004, || Ok(())).streams.is_empty());
        assert_eq!(acceptor.turn(1005, || Ok(())).streams.len(), ACCEPTS_A_TURN);
        assert_eq!(acceptor.next_ms(), None);
    }
}
