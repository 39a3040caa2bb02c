//! The client's end of a control socket. Calls block for as long as the caller allows.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::client::OUT_MAX;
use super::{Answer, Ask, Error, Request, decode_answer, encode_request};

/// Number of the only request of a connection.
const ID: u64 = 1;
/// Bytes that are peeked at in one call.
const PEEK_BYTES: usize = 64 << 10;

/// Sends a request to a manager or a farm and returns its response. The request fails if no data
/// arrives for the time of `patience`.
pub fn ask(path: &Path, ask: &Ask, patience: Duration) -> Result<Answer, Error> {
    let stream = connect(path, patience)?;
    exchange(stream, path, ask, patience).map(|(_, answer)| answer)
}

/// Sends a request to a process of this user or of root. Returns the connection as well as the
/// response, because some responses are followed by a stream.
pub fn open(path: &Path, ask: &Ask, patience: Duration) -> Result<(UnixStream, Answer), Error> {
    let stream = connect(path, patience)?;
    match reactor::is_own_user(&stream) {
        true => exchange(stream, path, ask, patience),
        false => Err(Error::NoRight { path: path.to_path_buf() }),
    }
}

/// Connects within `patience`, even to a listener that never accepts the connection.
fn connect(path: &Path, patience: Duration) -> Result<UnixStream, Error> {
    reactor::connect_within(path, patience).map_err(|error| explain(path, patience, error))
}

fn exchange(
    mut stream: UnixStream,
    path: &Path,
    ask: &Ask,
    patience: Duration,
) -> Result<(UnixStream, Answer), Error> {
    let wrap = |error: io::Error| explain(path, patience, error);
    stream.set_read_timeout(Some(patience)).map_err(wrap)?;
    stream.write_all(&encode_request(&Request { id: ID, ask: ask.clone() })).map_err(wrap)?;
    let line = read_line(&stream).map_err(wrap)?;
    let garbled = |reason| Error::Garbled { path: path.to_path_buf(), reason };
    match decode_answer(&line).map_err(garbled)? {
        (_, Err(failure)) => Err(Error::Refused(failure)),
        (Some(ID), Ok(answer)) => Ok((stream, answer)),
        (id, Ok(_)) => Err(garbled(format!("it is the response to request {id:?}, not to {ID}"))),
    }
}

/// Reads a line, but nothing of the stream after the line, which may belong to a guest. Bytes are
/// therefore peeked at before they are read.
fn read_line(mut stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut seen = vec![0; PEEK_BYTES];
    loop {
        let (count, _) = match recv(stream, seen.as_mut_slice(), RecvFlags::PEEK) {
            Err(Errno::INTR) => continue,
            answer => answer?,
        };
        let end = seen[..count].iter().position(|byte| *byte == b'\n');
        let count = end.map_or(count, |at| at + 1);
        stream.read_exact(&mut seen[..count])?;
        line.extend_from_slice(&seen[..count]);
        if end.is_some() {
            return Ok(line);
        }
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.len() > OUT_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not end"));
        }
    }
}

fn explain(path: &Path, patience: Duration, error: io::Error) -> Error {
    let path = path.to_path_buf();
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match (errno, error.kind()) {
        // The socket of a dead manager refuses connections.
        (Some(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR), _) => Error::NoManager { path },
        (Some(Errno::ACCESS | Errno::PERM), _) => Error::NoRight { path },
        (_, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            let waited_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
            Error::NoAnswer { path, waited_ms }
        }
        (_, io::ErrorKind::UnexpectedEof) | (Some(Errno::PIPE | Errno::CONNRESET), _) => {
            Error::Closed { path }
        }
        (_, io::ErrorKind::InvalidData) => Error::Garbled { path, reason: error.to_string() },
        _ => Error::Step { step: "ask at", path, source: error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_behind_an_answer_is_left_to_the_caller() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let long = "x".repeat(2 * PEEK_BYTES);
        there.write_all(format!("{long}\nof the guest").as_bytes()).unwrap();
        assert_eq!(read_line(&here).unwrap(), format!("{long}\n").as_bytes());
        drop(there);
        let cut = read_line(&here).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }
}
