//! A compressed block with a checksum.

use std::io::{self, Read, Write};

use crate::parkfile::{Error, damaged};

/// First bytes of the file. The last of these bytes is the version.
pub(crate) const MAGIC: [u8; 8] = *b"pinpark\x01";
/// Number of bytes in a block before its content.
const HEAD: usize = 13;
/// Maximum size of a block, in bytes. A reader needs memory for one block.
pub(crate) const BLOCK_MAX: usize = 2 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Header,
    Devices,
    Pages,
    End,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Header, Kind::Devices, Kind::Pages, Kind::End];

    fn letter(self) -> u8 {
        match self {
            Kind::Header => b'H',
            Kind::Devices => b'D',
            Kind::Pages => b'P',
            Kind::End => b'E',
        }
    }
}

/// Writes a block of at most [`BLOCK_MAX`] bytes.
pub(crate) fn write(mut into: impl Write, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() > BLOCK_MAX {
        return Err(io::Error::other("a block that no reader accepts"));
    }
    let stored = lz4_flex::block::compress(bytes);
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
    let mut head = [0; HEAD];
    head[0] = kind.letter();
    head[1..5].copy_from_slice(&length(bytes)?.to_le_bytes());
    head[5..9].copy_from_slice(&length(&stored)?.to_le_bytes());
    let sum = checksum(&head[..9], &stored);
    head[9..].copy_from_slice(&sum.to_le_bytes());
    into.write_all(&head)?;
    into.write_all(&stored)
}

/// Reads the next block. If the file ends within the block, the error contains the block's number.
pub(crate) fn read(mut from: impl Read, number: u64) -> Result<(Kind, Vec<u8>), Error> {
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(format!("it ends in block {number}")),
        _ => Error::Io(error),
    };
    let wrong = |what: &str| damaged(format!("block {number} {what}"));
    let mut head = [0; HEAD];
    from.read_exact(&mut head).map_err(cut)?;
    let [letter, lengths @ ..] = head;
    let (numbers, _) = lengths.as_chunks::<4>();
    let [length, stored_length, sum] = [numbers[0], numbers[1], numbers[2]].map(u32::from_le_bytes);
    let kind = Kind::ALL.into_iter().find(|kind| kind.letter() == letter);
    let kind = kind.ok_or_else(|| wrong("has an unknown kind"))?;
    let (length, stored_length) = (length as usize, stored_length as usize);
    if length > BLOCK_MAX || stored_length > lz4_flex::block::get_maximum_output_size(BLOCK_MAX) {
        return Err(wrong("is too long"));
    }
    let mut stored = vec![0; stored_length];
    from.read_exact(&mut stored).map_err(cut)?;
    if checksum(&head[..9], &stored) != sum {
        return Err(wrong("has a wrong checksum"));
    }
    let mut bytes = vec![0; length];
    match lz4_flex::block::decompress_into(&stored, &mut bytes) {
        Ok(count) if count == length => Ok((kind, bytes)),
        _ => Err(wrong("is not compressed correctly")),
    }
}

fn checksum(head: &[u8], stored: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(stored);
    sum.finalize()
}

/// Returns the file with corrected checksums, up to the first block that cannot be parsed.
pub fn with_checksums(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let mut at = MAGIC.len();
    while let Some(head) = file.get(at..at + HEAD) {
        let length = u32::from_le_bytes([head[5], head[6], head[7], head[8]]) as usize;
        let Some(stored) = file.get(at + HEAD..(at + HEAD).saturating_add(length)) else { break };
        let sum = checksum(&file[at..at + 9], stored);
        file[at + 9..at + HEAD].copy_from_slice(&sum.to_le_bytes());
        at += HEAD + length;
    }
    file
}
