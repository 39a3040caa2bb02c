//! Frames: where a message starts and ends in a stream of bytes.

use crate::VERSION;
use crate::body::Writer;
use crate::message::Message;

/// The bytes before a body.
pub const HEADER: usize = 12;
/// The longest body: a chunk of a file with its numbers, and room to grow.
pub const MAX_BODY: usize = 2560;
/// The longest frame.
pub const MAX_FRAME: usize = HEADER + MAX_BODY;

const MAGIC: [u8; 2] = [0x9D, 0x1E];

/// Appends the frame of a message to `out`.
pub fn encode(message: &Message, out: &mut Vec<u8>) {
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

/// What a decoder threw away because it was no message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Bytes outside of frames, and of broken ones.
    pub bytes: u64,
    /// Whole frames whose kind, version or body is unknown.
    pub frames: u64,
}

/// Finds the messages in a stream. It never holds more than one frame that is not
/// complete, whatever is fed.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    dropped: Dropped,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Takes bytes from the stream. Call [`Decoder::next`] until it has no more
    /// before the next bytes: what is left then is less than one frame.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// How many bytes wait for the rest of their frame or for being taken.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// What was thrown away so far.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    fn drop_bytes(&mut self, count: usize) {
        self.start += count;
        self.dropped.bytes += count as u64;
    }

    /// The next whole message.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Message> {
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
                // The magic number was part of something else.
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
                VERSION => Message::read(frame[2], &frame[HEADER..]),
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

/// The CRC of a frame, its own field left out.
fn checksum(frame: &[u8]) -> u32 {
    let crc = crc32(!0, &frame[2..6]);
    !crc32(crc, &frame[HEADER..])
}

/// The low half of the CRC of magic, kind, version and length.
fn header_check(frame: &[u8]) -> u16 {
    !crc32(!0, &frame[..6]) as u16
}

/// CRC-32 (IEEE 802.3), by half bytes: a guest sends a few hundred bytes at most,
/// and a table of 1 KiB would cost it more memory than time.
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
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::message::*;
    use crate::processes::{Processes, Scan, Task};
    use crate::system::System;

    fn samples() -> Vec<Message> {
        vec![
            Message::Hello(Hello {
                boot_id: [7; 16],
                cpus_present: 4,
                update_ms: 1000,
                pool: PoolKind::Host,
                reply: false,
                version: "0.1.0".into(),
            }),
            Message::Status(Status {
                sequence: 3,
                cpus_online: 2,
                pool_pages: u64::MAX,
                settled: true,
                reason: "HOTUNPLUG: one CPU less".into(),
                ..Status::default()
            }),
            Message::PoolRequest(PoolRequest { sequence: 1, pages: 4096 }),
            Message::Need(Pressure::Memory),
            Message::Chunk(Chunk {
                sequence: 9,
                file: File::Vmstat,
                offset: 4096,
                last: true,
                bytes: vec![0x9D; MAX_CHUNK],
            }),
            Message::Bye,
            Message::Memory(Memory {
                sequence: 5,
                uptime_ms: 86_400_000,
                total_kib: Some(262_144),
                free_kib: Some(0),
                psi_some_us: Some(u64::MAX - 1),
                ..Memory::default()
            }),
            Message::Welcome(Welcome { memory_pages: 65_536, grants: true, paces: true }),
            Message::Grant(Grant { sequence: 1, pages: 4000, reason: "floor".into() }),
            Message::Look,
            Message::Capture(Capture { sequence: 9, file: File::Vmstat }),
            Message::Sample(Sample { sequence: 5 }),
            Message::Processes(Processes {
                sequence: 6,
                part: 1,
                tasks: vec![Task { tid: 1, name: "init".into(), ..Task::default() }],
                ..Processes::default()
            }),
            Message::Scan(Scan { sequence: 6, top: 20 }),
            Message::System(System { sequence: 6, running: Some(1), ..System::default() }),
            Message::Identify(crate::Identity {
                name: "g7".into(),
                uuid: [1; 16],
                boot_id: [2; 16],
                addresses: None,
                seed: [3; 32],
                clock: std::time::Duration::from_millis(1_800_000_000_001),
            }),
            Message::Identified(Identified { refusal: "no".into() }),
        ]
    }

    fn stream() -> Vec<u8> {
        let mut bytes = Vec::new();
        samples().iter().for_each(|m| encode(m, &mut bytes));
        bytes
    }

    fn decode(decoder: &mut Decoder, bytes: &[u8]) -> Vec<Message> {
        decoder.feed(bytes);
        std::iter::from_fn(|| decoder.next()).collect()
    }

    #[test]
    fn the_checksum_is_the_common_one() {
        assert_eq!(!crc32(!0, b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn what_is_encoded_is_decoded_however_it_is_cut() {
        for size in [1, 2, 7, 100, 10_000] {
            let mut decoder = Decoder::new();
            let mut seen = Vec::new();
            for piece in stream().chunks(size) {
                seen.extend(decode(&mut decoder, piece));
            }
            assert_eq!(seen, samples(), "pieces of {size}");
            assert_eq!(decoder.dropped(), Dropped::default());
        }
    }

    #[test]
    fn a_stream_that_starts_in_the_middle_is_found_again() {
        let bytes = stream();
        for start in 1..bytes.len() {
            let mut decoder = Decoder::new();
            let seen = decode(&mut decoder, &bytes[start..]);
            let whole = samples();
            assert!(whole.ends_with(&seen), "start {start}");
            assert!(seen.len() < whole.len());
        }
    }

    #[test]
    fn a_flipped_bit_costs_one_frame() {
        let bytes = stream();
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            let mut decoder = Decoder::new();
            let seen = decode(&mut decoder, &broken);
            assert_eq!(seen.len(), samples().len() - 1, "byte {at}");
            assert!(seen.iter().all(|m| samples().contains(m)), "byte {at}");
        }
    }

    #[test]
    fn garbage_is_counted_and_not_kept() {
        let mut decoder = Decoder::new();
        for _ in 0..1000 {
            assert_eq!(decode(&mut decoder, &[0x9D; 4096]), []);
            assert!(decoder.buffered_bytes() <= MAX_FRAME);
        }
        assert!(decoder.dropped().bytes > 4_000_000);
        let seen = decode(&mut decoder, &stream());
        assert_eq!(seen, samples());
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        let reason = "ü".repeat(MAX_TEXT);
        let mut bytes = Vec::new();
        encode(&Message::Grant(Grant { sequence: 0, pages: 0, reason }), &mut bytes);
        match decode(&mut Decoder::new(), &bytes).pop() {
            Some(Message::Grant(grant)) => assert_eq!(grant.reason.len(), MAX_TEXT),
            other => panic!("{other:?}"),
        }
    }
}
