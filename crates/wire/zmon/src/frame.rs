//! Records in frames of 4 KiB. Each record begins with a head, and no record crosses a frame's end.

use crate::Tod;
use crate::layout::{Layout, record};

/// Size of a frame.
pub const FRAME_BYTES: usize = 4_096;

record! {
    /// Head of every record.
    Head, 20, {
        /// Length of the whole record, this head included.
        length: u16 = 0;
        zero: u16 = 2;
        domain: u8 = 4;
        record: u16 = 6;
        tod: u64 = 8;
    }
}

impl Head {
    /// Returns the time of the record.
    pub fn at(&self) -> Tod {
        Tod(self.tod)
    }

    /// Returns domain and record number.
    pub fn kind(&self) -> (u8, u16) {
        (self.domain, self.record)
    }

    /// Returns a record of a kind, with the bytes after its head.
    pub fn with(kind: (u8, u16), at: Tod, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(Head::BYTES + rest.len()).unwrap_or(u16::MAX);
        let head = Head { length, zero: 0, domain: kind.0, record: kind.1, tod: at.0 };
        [head.bytes().as_slice(), rest].concat()
    }
}

/// Kind of the record after which a frame is empty.
pub const END_OF_FRAME: (u8, u16) = (1, 13);
/// Kind of the record that completes an interval.
pub const END_OF_INTERVAL: (u8, u16) = (1, 11);
/// Number of domains.
const DOMAINS: u8 = 12;

/// A record in a frame, with all of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Domain and record number.
    pub kind: (u8, u16),
    /// Time of the record.
    pub at: Tod,
    /// Bytes of the whole record.
    pub bytes: &'a [u8],
}

/// Iterator over the records of a frame, or of a part of a frame. An invalid record ends the
/// iteration.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// Bytes that are not records.
    lost: usize,
}

impl<'a> Records<'a> {
    /// Iterates over the records in these bytes.
    pub fn of(bytes: &'a [u8]) -> Records<'a> {
        Records { rest: bytes, lost: 0 }
    }

    /// Returns the number of bytes at the end that are not records. Call this after the iteration.
    pub fn lost(&self) -> usize {
        self.lost
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Found<'a>;

    fn next(&mut self) -> Option<Found<'a>> {
        let rest = std::mem::take(&mut self.rest);
        let empty = rest.iter().all(|byte| *byte == 0);
        if empty {
            return None;
        }
        let head = Head::read(rest).ok().filter(|head| head.zero == 0 && head.domain < DOMAINS);
        let taken = head.and_then(|head| {
            let length = usize::from(head.length);
            let (bytes, rest) = rest.split_at_checked(length)?;
            (length >= Head::BYTES).then_some((head, bytes, rest))
        });
        let Some((head, bytes, rest)) = taken else {
            self.lost = rest.len();
            return None;
        };
        if head.kind() == END_OF_FRAME {
            return None;
        }
        self.rest = rest;
        Some(Found { kind: head.kind(), at: head.at(), bytes })
    }
}
