//! Records in frames of 4 KiB: each begins with a head, none goes over the end of a frame.

use crate::Tod;
use crate::layout::{Layout, record};

/// The size of a frame.
pub const FRAME_BYTES: usize = 4_096;

record! {
    /// What every record begins with.
    Head, 20, {
        /// The whole record's length, this head included.
        length: u16 = 0;
        zero: u16 = 2;
        domain: u8 = 4;
        record: u16 = 6;
        tod: u64 = 8;
    }
}

impl Head {
    /// When the record was made.
    pub fn at(&self) -> Tod {
        Tod(self.tod)
    }

    /// Domain and record.
    pub fn kind(&self) -> (u8, u16) {
        (self.domain, self.record)
    }

    /// A record of a kind with what follows its head.
    pub fn with(kind: (u8, u16), at: Tod, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(Head::BYTES + rest.len()).unwrap_or(u16::MAX);
        let head = Head { length, zero: 0, domain: kind.0, record: kind.1, tod: at.0 };
        [head.bytes().as_slice(), rest].concat()
    }
}

/// Nothing more is in this frame.
pub const END_OF_FRAME: (u8, u16) = (1, 13);
/// What came since the one before is a whole interval.
pub const END_OF_INTERVAL: (u8, u16) = (1, 11);
/// The domains that there are.
const DOMAINS: u8 = 12;

/// A record as it stands in a frame, with all of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Domain and record.
    pub kind: (u8, u16),
    /// When it was made.
    pub at: Tod,
    /// The whole record.
    pub bytes: &'a [u8],
}

/// The records of a frame, or of a part of one. What is no record ends it.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// Bytes that are no record.
    lost: usize,
}

impl<'a> Records<'a> {
    /// Those in these bytes.
    pub fn of(bytes: &'a [u8]) -> Records<'a> {
        Records { rest: bytes, lost: 0 }
    }

    /// How many bytes at the end are none, once all have been taken.
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
