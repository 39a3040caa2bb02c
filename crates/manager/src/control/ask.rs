//! The command line's end of the socket. It waits for as long as its caller allows.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use super::client::OUT_MAX;
use super::{Answer, Ask, Error, Request, decode_answer, encode_request};

/// The number of the only request of a connection.
const ID: u64 = 1;

/// Asks the manager and waits for its answer. Without a sign of it for `patience` there is none.
pub fn ask(path: &Path, ask: &Ask, patience: Duration) -> Result<Answer, Error> {
    let wrap = |error: io::Error| explain(path, patience, error);
    // One that takes nobody is waited for no longer than one that does not answer.
    let mut stream = reactor::connect_within(path, patience).map_err(wrap)?;
    stream.set_read_timeout(Some(patience)).map_err(wrap)?;
    stream.write_all(&encode_request(&Request { id: ID, ask: ask.clone() })).map_err(wrap)?;
    let line = read_line(&mut stream).map_err(wrap)?;
    let garbled = |reason| Error::Garbled { path: path.to_path_buf(), reason };
    match decode_answer(&line).map_err(garbled)? {
        (_, Err(failure)) => Err(Error::Refused(failure)),
        (Some(ID), Ok(answer)) => Ok(answer),
        (id, Ok(_)) => Err(garbled(format!("it answers request {id:?}, and {ID} was asked"))),
    }
}

fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = buffer[..count].iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&buffer[..end.unwrap_or(count)]);
        if end.is_some() {
            return Ok(line);
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
        // A socket whose manager is dead refuses.
        (Some(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR), _) => Error::NoManager { path },
        (Some(Errno::ACCESS | Errno::PERM), _) => Error::NoRight { path },
        (_, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            let waited_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
            Error::NoAnswer { path, waited_ms }
        }
        (_, io::ErrorKind::UnexpectedEof) | (Some(Errno::PIPE | Errno::CONNRESET), _) => {
            Error::Garbled { path, reason: "the manager has hung up".to_owned() }
        }
        (_, io::ErrorKind::InvalidData) => Error::Garbled { path, reason: error.to_string() },
        _ => Error::Step { step: "ask at", path, source: error },
    }
}
