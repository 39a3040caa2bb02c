//! Decoder of messages from bytes.
//!
//! QEMU ends every message with CR LF and writes no raw newline inside a message, so a line is a
//! message. Decoding resumes at the next newline after malformed input.

use crate::{Error, Message};

/// The longest line that is stored. The longest answer to pinhead's commands is the answer to
/// `query-cpus-fast`, with about 300 bytes a CPU. The 248 CPUs of an s390x guest need less than a
/// tenth of 1 MiB. Parsed JSON takes up to about thirty times the memory of its text, so the limit
/// also bounds the temporary memory for a hostile line.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Splits a byte stream into lines, and parses each line as a [`Message`].
///
/// This iterator may continue after `None`, which only means that no complete line is left until
/// the next [`feed`](Self::feed). If all messages are read after each feed, the buffer never
/// contains more than one line and the last input.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Offset of the first line that was not returned yet.
    start: usize,
    /// Offset up to which the buffer has no newline after `start`. A long line fed byte by byte is
    /// therefore not searched from its start each time.
    scanned: usize,
    /// True after a line became too long. All bytes up to the next newline are dropped.
    skipping: bool,
}

impl Decoder {
    /// Creates a decoder at the start of a line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of bytes that wait for their newline or were not decoded yet.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Returns the range of the next complete line, without its newline, if there is one.
    fn take_line(&mut self) -> Option<std::ops::Range<usize>> {
        let found = self.buffer[self.scanned..].iter().position(|&byte| byte == b'\n');
        let Some(distance) = found else {
            self.buffer.drain(..self.start);
            self.start = 0;
            self.scanned = self.buffer.len();
            return None;
        };
        let newline = self.scanned + distance;
        let line = self.start..newline;
        self.start = newline + 1;
        self.scanned = self.start;
        Some(line)
    }

    fn drop_partial_line(&mut self) {
        self.buffer.clear();
        // A burst may have made the buffer large. The memory is freed, because an idle monitor does
        // not need it.
        self.buffer.shrink_to(4096);
        self.start = 0;
        self.scanned = 0;
    }
}

impl Iterator for Decoder {
    type Item = Result<Message, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(line) = self.take_line() else {
                if self.skipping {
                    self.drop_partial_line();
                } else if self.buffered_bytes() > MESSAGE_BYTES_MAX {
                    self.skipping = true;
                    self.drop_partial_line();
                    return Some(Err(Error::TooLong { limit_bytes: MESSAGE_BYTES_MAX }));
                }
                return None;
            };
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if line.len() > MESSAGE_BYTES_MAX {
                return Some(Err(Error::TooLong { limit_bytes: MESSAGE_BYTES_MAX }));
            }
            let line = self.buffer[line].trim_ascii();
            if !line.is_empty() {
                return Some(Message::parse(line));
            }
        }
    }
}
