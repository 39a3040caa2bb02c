//! Target for `wire`, with the bytes that a hostile guest or host sends to the port.

use std::fmt::Debug;

use wire::{Decoder, Dropped, HEADER, MAX_BODY, MAX_FRAME, Message, ToGuest, ToHost};

use crate::input::Cut;

/// Decodes the input in pieces of any size, then decodes frames with valid checksums that are made
/// from the input.
pub(crate) fn frames(data: &[u8]) {
    let cut = Cut::new(data);
    heard_by::<ToHost>(&cut);
    heard_by::<ToGuest>(&cut);
}

fn heard_by<M: Message + Clone + Debug + PartialEq>(cut: &Cut<'_>) {
    let (messages, dropped) = decode::<M>(&[cut.stream]);
    assert_eq!(decode(&cut.pieces(cut.stream)), (messages.clone(), dropped), "in pieces");
    for message in &messages {
        let (again, dropped) = decode::<M>(&[&encoded(message)]);
        assert_eq!((again.as_slice(), dropped), (&[message.clone()][..], Dropped::default()));
    }
    sealed::<M>(cut);
}

/// Decodes a whole stream. The decoder holds less than one frame between two pieces.
fn decode<M: Message>(pieces: &[&[u8]]) -> (Vec<M>, Dropped) {
    let mut decoder = Decoder::new();
    let mut messages = Vec::new();
    for piece in pieces {
        let before = decoder.buffered_bytes();
        decoder.feed(piece);
        assert_eq!(decoder.buffered_bytes(), before + piece.len());
        messages.extend(std::iter::from_fn(|| decoder.next()));
        assert!(decoder.buffered_bytes() < MAX_FRAME, "{} bytes", decoder.buffered_bytes());
    }
    (messages, decoder.dropped())
}

fn encoded<M: Message>(message: &M) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(message, &mut bytes);
    assert!(bytes.len() <= MAX_FRAME);
    bytes
}

/// Builds frames with valid checksums from the input, because the fuzzer cannot guess a checksum.
/// Each frame is made from a byte of flags, a kind, a length, and a body of this length. The
/// expected result of the decoder follows from the flags and the body.
fn sealed<M: Message + Debug + PartialEq>(cut: &Cut<'_>) {
    let mut rest = cut.stream;
    let mut stream = Vec::new();
    let mut expected = (Vec::new(), Dropped::default());
    while let [flags, kind, length, after @ ..] = rest {
        let (body, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        // Faults by flag: half a magic number before the frame, another version, a wrong checksum,
        // a long body.
        let [half, other_version, broken, long] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
        let body = if long { body.repeat(10) } else { body.to_vec() };
        let body = &body[..body.len().min(MAX_BODY)];
        let mut frame = seal(*kind, if other_version { 2 } else { wire::VERSION }, body);
        if half {
            stream.push(frame[0]);
            expected.1.bytes += 1;
        }
        if broken {
            frame[8] ^= 1;
            expected.1.bytes += frame.len() as u64;
        } else {
            match decode::<M>(&[&frame]) {
                (messages, dropped) if dropped == Dropped::default() => {
                    assert!(!other_version && messages.len() == 1, "{messages:?}");
                    // Every message has exactly one encoding, so that a message has no hidden
                    // content.
                    assert_eq!(encoded(&messages[0]), frame, "{messages:?}");
                    expected.0.extend(messages);
                }
                (messages, dropped) => {
                    assert!(messages.is_empty());
                    assert_eq!(dropped, Dropped { bytes: 0, frames: 1 });
                    expected.1.frames += 1;
                }
            }
        }
        stream.extend(frame);
    }
    assert_eq!(decode(&cut.pieces(&stream)), expected);
}

fn seal(kind: u8, version: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x9D, 0x1E, kind, version];
    frame.extend((body.len() as u16).to_be_bytes());
    frame.extend((crc32(&[&frame]) as u16).to_be_bytes());
    frame.extend(crc32(&[&frame[2..6], body]).to_be_bytes());
    frame.extend(body);
    assert_eq!(frame.len(), HEADER + body.len());
    frame
}

/// Computes CRC-32 (IEEE 802.3) bit by bit, as defined, unlike the decoder.
fn crc32(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    !bytes.fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 }
        })
    })
}
