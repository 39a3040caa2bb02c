//! Lines from a client, and bytes that wait for one: both bounded by their user.

use std::io::{self, Read, Write};

use crate::{is_passing, write_some};

/// Room that an emptied outbox keeps.
const OUT_KEPT: usize = 64 * 1024;
/// Read at once.
const CHUNK: usize = 4096;

/// What a read has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The other end will send no more.
    End,
}

/// What a client has sent and nobody has taken yet.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// Reads once from a stream that does not block.
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

    /// Bytes that were not taken yet.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether a whole line is there.
    pub fn has_line(&self) -> bool {
        self.bytes.contains(&b'\n')
    }

    /// The next whole line, with its end.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        Some(self.bytes.drain(..=end).collect())
    }
}

/// Bytes that wait for a client to take them.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
}

impl Outbox {
    /// Adds bytes behind those that wait.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes what a stream that does not block takes now, and gives how much that was. A stream
    /// that takes nothing at all any more is an error.
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
