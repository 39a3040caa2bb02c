//! Lines from a client, and bytes that wait to be sent to a client. The caller bounds both.

use std::io::{self, Read, Write};

use crate::{is_passing, write_some};

/// The capacity that an emptied outbox keeps.
const OUT_KEPT: usize = 64 * 1024;
const CHUNK: usize = 4096;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The number of received bytes.
    Bytes(usize),
    /// No data is available now.
    Nothing,
    /// The client has shut down its sending side.
    End,
}

/// Received bytes of a client that were not returned as lines yet.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// Reads once from a non-blocking stream.
    pub fn read(&mut self, mut stream: impl Read) -> io::Result<Received> {
        let mut chunk = [0; CHUNK];
        match stream.read(&mut chunk) {
            Ok(0) => Ok(Received::End),
            Ok(count) => {
                self.bytes.extend_from_slice(&chunk[..count]);
                Ok(Received::Bytes(count))
            }
            Err(error) if is_passing(&error) => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of bytes that were not returned as lines yet.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if all bytes were returned as lines.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns true if a whole line is available.
    pub fn has_line(&self) -> bool {
        self.bytes.contains(&b'\n')
    }

    /// Returns the next whole line, with its line end.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        Some(self.bytes.drain(..=end).collect())
    }
}

/// Bytes that wait until a client accepts them.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
}

impl Outbox {
    /// Adds bytes behind the waiting bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the number of waiting bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes as much as a non-blocking stream accepts now, and returns the number of bytes. A
    /// closed stream is an error.
    pub fn send(&mut self, stream: impl Write) -> io::Result<usize> {
        let sent = write_some(stream, &self.bytes)?;
        self.bytes.drain(..sent);
        self.bytes.shrink_to(OUT_KEPT);
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn lines_come_out_whole() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut lines = Lines::default();
        assert_eq!(lines.read(&theirs).unwrap(), Received::Nothing);
        ours.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(lines.read(&theirs).unwrap(), Received::Bytes(11));
        assert_eq!(lines.next_line().unwrap(), b"one\n");
        assert!(lines.has_line());
        assert_eq!(lines.next_line().unwrap(), b"two\n");
        assert_eq!((lines.next_line(), lines.len()), (None, 3));
        drop(ours);
        assert_eq!(lines.read(&theirs).unwrap(), Received::End);
    }

    #[test]
    fn an_outbox_keeps_what_is_not_taken() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut out = Outbox::default();
        let all: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
        out.push(&all);
        let sent = out.send(&ours).unwrap();
        assert!(sent > 0 && out.len() == all.len() - sent);
        let mut came = Vec::new();
        let mut chunk = [0; 1 << 16];
        while came.len() < all.len() {
            let count = theirs.read(&mut chunk).unwrap();
            came.extend_from_slice(&chunk[..count]);
            out.send(&ours).unwrap();
        }
        assert!(came == all && out.is_empty());
        drop(theirs);
        out.push(b"x");
        assert!(out.send(&ours).is_err());
    }
}
