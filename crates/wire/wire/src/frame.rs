//! Frames: the beginning and end of a message in a stream of bytes.

use std::marker::PhantomData;

use crate::body::{MAX_BODY, Reader, Writer};
use crate::table::Message;

/// The version of the protocol.
pub const VERSION: u8 = 1;

/// The bytes before a body.
pub const HEADER: usize = 12;
/// Maximum length of a frame.
pub const MAX_FRAME: usize = HEADER + MAX_BODY;

const MAGIC: [u8; 2] = [0x9D, 0x1E];

/// Appends the frame of a message to `out`.
pub fn encode<M: Message>(message: &M, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[message.kind(), VERSION, 0, 0, 0, 0, 0, 0, 0, 0]);
    message.write(&mut Writer(out));
    let length = (out.len() - start - HEADER) as u16;
    out[start + 4..start + 6].copy_from_slice(&length.to_be_bytes());
    let check = header_check(&out[start..]);
    out[start + 6..start + 8].copy_from_slice(&check.to_be_bytes());
    let sum = checksum(&out[start..]);
    out[start + 8..start + HEADER].copy_from_slice(&sum.to_be_bytes());
}

/// The amount that a decoder has dropped as invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Bytes outside of frames, and of broken frames.
    pub bytes: u64,
    /// Whole frames with an unknown kind, version or body.
    pub frames: u64,
}

/// Finds the messages of one end in a stream; messages of the other end count as unknown. The
/// decoder never holds more than one incomplete frame, for any input.
#[derive(Debug)]
pub struct Decoder<M> {
    buffer: Vec<u8>,
    start: usize,
    dropped: Dropped,
    messages: PhantomData<M>,
}

impl<M> Default for Decoder<M> {
    fn default() -> Decoder<M> {
        let (buffer, start, dropped) = (Vec::new(), 0, Dropped::default());
        Decoder { buffer, start, dropped, messages: PhantomData }
    }
}

impl<M: Message> Decoder<M> {
    /// Creates a decoder at the start of a stream.
    pub fn new() -> Decoder<M> {
        Decoder::default()
    }

    /// Takes bytes from the stream. [`Decoder::next`] must be called until it returns `None` before
    /// the next bytes are added, so that the rest is less than one frame.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of bytes that wait for the rest of their frame, or were not returned yet.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Returns the amount dropped so far.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    fn drop_bytes(&mut self, count: usize) {
        self.start += count;
        self.dropped.bytes += count as u64;
    }

    /// Returns the next whole message.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<M> {
        loop {
            let rest = &self.buffer[self.start..];
            // The last byte may be the first half of a magic number.
            let garbage = rest
                .windows(2)
                .position(|pair| pair == MAGIC)
                .unwrap_or(rest.len() - usize::from(rest.last() == Some(&MAGIC[0])));
            if garbage > 0 {
                self.drop_bytes(garbage);
                continue;
            }
            if rest.len() < HEADER {
                return None;
            }
            let length = usize::from(u16::from_be_bytes([rest[4], rest[5]]));
            let check = u16::from_be_bytes([rest[6], rest[7]]);
            if length > MAX_BODY || check != header_check(rest) {
                // The magic number was part of other data.
                self.drop_bytes(1);
                continue;
            }
            let frame = rest.get(..HEADER + length)?;
            let sum = u32::from_be_bytes([frame[8], frame[9], frame[10], frame[11]]);
            if checksum(frame) != sum {
                self.drop_bytes(HEADER + length);
                continue;
            }
            let message = match frame[3] {
                VERSION => {
                    let mut body = Reader::new(&frame[HEADER..]);
                    M::read(frame[2], &mut body).filter(|_| body.is_done())
                }
                _ => None,
            };
            self.start += HEADER + length;
            match message {
                Some(message) => return Some(message),
                None => self.dropped.frames += 1,
            }
        }
    }
}

/// Computes the CRC of a frame, which excludes the CRC field itself.
fn checksum(frame: &[u8]) -> u32 {
    let crc = crc32(!0, &frame[2..6]);
    !crc32(crc, &frame[HEADER..])
}

/// Returns the low half of the CRC of magic, kind, version and length.
fn header_check(frame: &[u8]) -> u16 {
    !crc32(!0, &frame[..6]) as u16
}

/// Computes CRC-32 (IEEE 802.3), by half bytes. A guest sends a few hundred bytes at most, so the
/// time saved by a table of 1 KiB would not be worth its memory.
fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 16] = {
        let mut table = [0; 16];
        let mut n = 0;
        while n < 16 {
            let mut value = n as u32;
            let mut bit = 0;
            while bit < 4 {
                value = if value & 1 == 1 { (value >> 1) ^ 0xEDB8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[n] = value;
            n += 1;
        }
        table
    };
    bytes.iter().fold(crc, |crc, byte| {
        let crc = crc ^ u32::from(*byte);
        let crc = (crc >> 4) ^ TABLE[(crc & 15) as usize];
        (crc >> 4) ^ TABLE[(crc & 15) as usize]
    })
}

#[cfg(test)]
mod tests;
