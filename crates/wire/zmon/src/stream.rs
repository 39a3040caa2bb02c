//! /dev/monreader: data sets between two empty reads.
//!
//! ```text
//!   0 bytes | entry, its records | entry, its records | … | 0 bytes
//! ```
//!
//! CP overwrites data that are not yet acknowledged. Only the empty read at the end of a set
//! confirms that the data are intact, so nothing is returned before this read.

use crate::Error;
use crate::frame::{FRAME_BYTES, Records};
use crate::layout::{Layout, record};

/// Kind of an entry: samples or events.
const SAMPLE: u8 = 0xe2;
const EVENT: u8 = 0xc5;
/// Maximum length of a set; its segment has 64 MiB at most.
pub const SET_MAX: usize = 64 << 20;

record! {
    /// An entry: the first and the last byte of some records.
    Entry, 12, {
        /// X'E2' samples, X'C5' events.
        kind: u8 = 0;
        domains: u8 = 1;
        more_domains: u8 = 2;
        reserved: u8 = 3;
        from: u32 = 4;
        to: u32 = 8;
    }
}

impl Entry {
    /// Returns an entry of samples of all domains.
    pub fn of_samples(from: u32, to: u32) -> Entry {
        Entry { kind: SAMPLE, domains: 0xff, more_domains: 0xff, reserved: 0, from, to }
    }

    /// Returns true if the entry is valid by the rules of the device's driver.
    pub fn is_valid(&self) -> bool {
        let names_domains = self.domains != 0 || self.more_domains != 0;
        self.kind != 0 && names_domains && self.to > self.from
    }

    /// Returns true if the kind is known, a stricter test for pages with unknown contents.
    pub fn is_known(&self) -> bool {
        self.is_valid() && [SAMPLE, EVENT].contains(&self.kind)
    }

    /// Returns the length of the records in bytes.
    pub fn length(&self) -> usize {
        (self.to - self.from) as usize + 1
    }

    /// Returns the offset within a frame.
    pub fn offset(&self) -> usize {
        self.from as usize % FRAME_BYTES
    }
}

/// Result of a read of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// Some bytes, or none at the end of a set.
    Bytes(&'a [u8]),
    /// EOVERFLOW: the data so far are valid, and later records may be missing.
    Overflow,
    /// EIO or EFAULT: the data since the last empty read are invalid.
    Failed,
}

/// Result of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// A complete set: entries, each followed by its records.
    Whole(Vec<u8>),
    /// A valid but incomplete set.
    Part(Vec<u8>),
    /// A lost set, with its length in bytes.
    Lost(usize),
}

/// Assembly of sets from reads. The first read after opening begins a set.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    bytes: Vec<u8>,
    is_too_long: bool,
}

impl Stream {
    /// Adds a read, and returns the set if the read ended a set.
    pub fn take(&mut self, read: Read<'_>) -> Option<Set> {
        match read {
            Read::Bytes([]) => {
                let Stream { bytes, is_too_long } = std::mem::take(self);
                match (bytes.is_empty(), is_too_long) {
                    (true, _) => None,
                    (false, true) => Some(Set::Lost(bytes.len())),
                    (false, false) => Some(Set::Whole(bytes)),
                }
            }
            Read::Bytes(bytes) => {
                self.is_too_long |= self.bytes.len() + bytes.len() > SET_MAX;
                if !self.is_too_long {
                    self.bytes.extend(bytes);
                }
                None
            }
            // The driver reports an overflow before the next set begins.
            Read::Overflow => {
                let bytes = std::mem::take(self).bytes;
                (!bytes.is_empty()).then_some(Set::Part(bytes))
            }
            Read::Failed => {
                let lost = std::mem::take(self).bytes.len();
                (lost > 0).then_some(Set::Lost(lost))
            }
        }
    }
}

/// Returns the parts of frames in a set, each with its offset in the frame. The second value is an
/// error if the set ends within the records of an entry.
pub fn parts(mut set: &[u8]) -> (Vec<Records<'_>>, Result<(), Error>) {
    let mut parts = Vec::new();
    while !set.is_empty() {
        let entry = match Entry::read(set) {
            Ok(entry) if entry.is_valid() => entry,
            Ok(entry) => {
                let value = entry.kind.into();
                let wanted = "an entry has a kind and domains, and ends behind its beginning";
                let wrong = Error::Wrong { record: "Entry", field: "kind", value, wanted };
                return (parts, Err(wrong));
            }
            Err(error) => return (parts, Err(error)),
        };
        let rest = &set[Entry::BYTES..];
        let length = entry.length().min(rest.len());
        let (mut records, after) = rest.split_at(length);
        let mut room = FRAME_BYTES - entry.offset();
        while !records.is_empty() {
            let (frame, more) = records.split_at(room.min(records.len()));
            parts.push(Records::of(frame));
            (records, room) = (more, FRAME_BYTES);
        }
        if length < entry.length() {
            let (from, to) = (length, entry.length());
            let field = "its records";
            return (parts, Err(Error::Short { record: "Entry", field, from, to, length }));
        }
        set = after;
    }
    (parts, Ok(()))
}
