//! Deadlines, and reads from a socket with a deadline.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::Error;

/// A point in time at which waiting ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    start: Instant,
    limit: Duration,
}

#[allow(clippy::disallowed_methods, reason = "this is the crate's clock module")]
fn now() -> Instant {
    Instant::now()
}

impl Deadline {
    /// Returns the deadline that is `limit` from now.
    pub fn after(limit: Duration) -> Deadline {
        Deadline { start: now(), limit }
    }

    /// Returns the time left; `None` after the deadline.
    pub fn remaining(&self) -> Option<Duration> {
        self.limit.checked_sub(self.elapsed()).filter(|left| !left.is_zero())
    }

    /// Returns the time since the deadline was set.
    pub fn elapsed(&self) -> Duration {
        now().saturating_duration_since(self.start)
    }

    /// Returns the error for data or an event that did not arrive in time.
    pub fn missed(&self, waiting_for: impl fmt::Display) -> Error {
        let waiting_for = format!("{waiting_for} did not come within {:?}", self.limit);
        Error::Deadline { waiting_for }
    }
}

/// Waits for the first byte until the deadline, and reads the available bytes. The end of the
/// stream is an error here, because every connection of a guest lasts as long as its QEMU.
pub fn read_before(
    stream: &mut UnixStream,
    buffer: &mut [u8],
    deadline: Deadline,
    channel: &'static str,
    waiting_for: &dyn fmt::Display,
) -> Result<usize, Error> {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    let is_early = |kind| matches!(kind, WouldBlock | TimedOut | Interrupted);
    loop {
        let left = deadline.remaining().ok_or_else(|| deadline.missed(waiting_for))?;
        match stream.set_read_timeout(Some(left)).and_then(|()| stream.read(buffer)) {
            Ok(0) => {
                let source = ErrorKind::UnexpectedEof.into();
                return Err(Error::Channel { channel, source });
            }
            Ok(count) => return Ok(count),
            // A timeout or a signal may end the wait early. Only the deadline counts.
            Err(error) if is_early(error.kind()) => {}
            Err(source) => return Err(Error::Channel { channel, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_read_ends_with_data_with_the_deadline_or_with_the_peer() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let mut buffer = [0; 8];
        theirs.write_all(b"abc").unwrap();
        let long = Deadline::after(Duration::from_secs(60));
        let count = read_before(&mut ours, &mut buffer, long, "test", &"data").unwrap();
        assert_eq!(&buffer[..count], b"abc");

        let short = Deadline::after(Duration::from_millis(20));
        let error = read_before(&mut ours, &mut buffer, short, "test", &"more").unwrap_err();
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
        assert!(short.remaining().is_none() && short.elapsed() >= Duration::from_millis(20));

        drop(theirs);
        let error = read_before(&mut ours, &mut buffer, long, "test", &"more").unwrap_err();
        assert!(matches!(error, Error::Channel { channel: "test", .. }), "{error}");
    }
}
