//! Decodes messages from bytes.
//!
//! ```text
//!   length u32   its own four bytes are counted
//!   program u32, version u32, procedure i32, type u32, serial u32, status u32
//!   body         what the procedure says
//! ```
//!
//! The next message is found only by the length of the current message. A valid message that is too
//! long for this crate is therefore skipped, and an impossible length ends the stream.

use crate::Error;
use crate::xdr::Reader;

/// The length and the header; every message has at least these bytes.
pub const HEADER_BYTES: usize = 28;

/// Maximum length of a message in the protocol, including its length field.
pub const PROTOCOL_BYTES_MAX: usize = (16 << 20) + 4;

/// Maximum length of a message that is kept. The longest answer is a list of 4,096 domains with
/// long names, about 1 MiB; the description of a large domain has 50 KiB.
pub const MESSAGE_BYTES_MAX: usize = 2 << 20;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The protocol's number.
    pub program: u32,
    /// The protocol's version.
    pub version: u32,
    /// The number of the call or event.
    pub procedure: i32,
    /// 0 for a call, 1 for its answer, 2 for an event.
    pub kind: u32,
    /// The serial of the answered call.
    pub serial: u32,
    /// 0 for success, 1 if the body is an error.
    pub status: u32,
}

impl Header {
    /// Encodes a message: its length, this header and the body.
    pub(crate) fn encode(&self, body: &[u8]) -> Vec<u8> {
        let length = HEADER_BYTES + body.len();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        for word in [self.program, self.version] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(self.procedure.to_be_bytes());
        for word in [self.kind, self.serial, self.status] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(body);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Header, Error> {
        let mut reader = Reader::new(bytes, "header");
        Ok(Header {
            program: reader.u32("program")?,
            version: reader.u32("version")?,
            procedure: reader.i32("procedure")?,
            kind: reader.u32("type")?,
            serial: reader.u32("serial")?,
            status: reader.u32("status")?,
        })
    }
}

/// A message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The message's header.
    pub header: Header,
    /// The body, or the error for the caller if the body was too long to be kept.
    pub body: Result<Vec<u8>, Error>,
}

/// Splits a byte stream into messages.
///
/// The decoder is an iterator that may continue after `None`. `None` only means that no complete
/// message is left until the next [`feed`](Self::feed). If all messages are taken after each feed,
/// the decoder never holds more than one message and the last input.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Offset of the first message that was not returned yet.
    start: usize,
    /// Number of further bytes that belong to a skipped message.
    skip_bytes: usize,
    /// True after an impossible length, which makes it impossible to find the next message.
    is_lost: bool,
}

impl Decoder {
    /// Creates a decoder at the start of a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        let skipped = self.skip_bytes.min(bytes.len());
        self.skip_bytes -= skipped;
        if !self.is_lost {
            self.buffer.extend_from_slice(&bytes[skipped..]);
        }
    }

    /// Returns the number of bytes that wait for the rest of their message, or were not returned
    /// yet.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    fn next_message(&mut self) -> Result<Option<Message>, Error> {
        let waiting = &self.buffer[self.start..];
        // The length is checked as soon as it is complete, because the rest of a header may never
        // arrive.
        let Some((field, after)) = waiting.split_first_chunk::<4>() else { return Ok(None) };
        let claimed = u32::from_be_bytes(*field);
        let length = usize::try_from(claimed).unwrap_or(usize::MAX);
        if !(HEADER_BYTES..=PROTOCOL_BYTES_MAX).contains(&length) {
            self.is_lost = true;
            return Err(Error::Framing { length_bytes: claimed });
        }
        if waiting.len() < HEADER_BYTES {
            return Ok(None);
        }
        let header = Header::read(after)?;
        if length > MESSAGE_BYTES_MAX {
            let here = length.min(waiting.len());
            self.start += here;
            self.skip_bytes = length - here;
            let limit_bytes = MESSAGE_BYTES_MAX;
            let body = Err(Error::TooLong { length_bytes: length, limit_bytes });
            return Ok(Some(Message { header, body }));
        }
        let Some(body) = waiting.get(HEADER_BYTES..length) else { return Ok(None) };
        let body = Ok(body.to_vec());
        self.start += length;
        Ok(Some(Message { header, body }))
    }

    /// Drops the bytes that were returned.
    fn tidy_up(&mut self) {
        if self.is_lost {
            self.buffer.clear();
            self.start = 0;
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.is_empty() {
            // A burst may have made the buffer large; an idle connection should not keep it.
            self.buffer.shrink_to(4096);
        }
    }
}

impl Iterator for Decoder {
    type Item = Result<Message, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_lost {
            return None;
        }
        let next = self.next_message().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.tidy_up();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header =
        Header { program: 1, version: 2, procedure: -3, kind: 4, serial: 5, status: 6 };

    fn all(pieces: &[&[u8]]) -> Vec<Result<Message, Error>> {
        let mut decoder = Decoder::new();
        let mut found = Vec::new();
        for piece in pieces {
            decoder.feed(piece);
            found.extend(decoder.by_ref());
        }
        found
    }

    #[test]
    fn messages_come_out_as_they_went_in_however_they_are_cut() {
        let mut stream = HEADER.encode(b"");
        stream.extend(HEADER.encode(b"body"));
        let expected = [b"".as_slice(), b"body"]
            .map(|body| Ok(Message { header: HEADER, body: Ok(body.to_vec()) }));
        assert_eq!(all(&[&stream]), expected);
        let bytes: Vec<_> = stream.chunks(1).collect();
        assert_eq!(all(&bytes), expected);
    }

    #[test]
    fn a_message_too_long_is_skipped_and_its_caller_is_told() {
        let long = HEADER.encode(&vec![0; MESSAGE_BYTES_MAX]);
        let mut stream = long.clone();
        stream.extend(HEADER.encode(b"next"));
        for size in [7, 4096, stream.len()] {
            let pieces: Vec<_> = stream.chunks(size).collect();
            let found = all(&pieces);
            let error = Error::TooLong { length_bytes: long.len(), limit_bytes: MESSAGE_BYTES_MAX };
            assert_eq!(found[0], Ok(Message { header: HEADER, body: Err(error) }));
            assert_eq!(found[1], Ok(Message { header: HEADER, body: Ok(b"next".to_vec()) }));
        }
    }

    #[test]
    fn an_impossible_length_ends_the_stream() {
        for length in [0, 27, PROTOCOL_BYTES_MAX as u32 + 1, u32::MAX] {
            let good = HEADER.encode(b"");
            let found = all(&[&length.to_be_bytes(), &good]);
            assert_eq!(found, [Err(Error::Framing { length_bytes: length })]);
        }
    }
}
