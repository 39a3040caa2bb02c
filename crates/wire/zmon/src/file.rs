//! MONWRITE files. A file consists of directory pages, and each directory page is followed by the
//! pages that its entries name.
//!
//! ```text
//!   4096: 40 bytes of IUCV's message | entries of 12 bytes, up to 338
//!   4096 × n: the frames of the first entry, those of the second, …
//! ```
//!
//! The layout is documented, but not guaranteed. The reader assumes that each entry's frames are
//! written whole, from the first to the last frame that the entry touches. A file may be truncated
//! anywhere, and a page may be missing. An unexpected page is reported with its offset, and reading
//! continues with the next directory page.

use crate::frame::{FRAME_BYTES, Found, Head, Records};
use crate::layout::Layout;
use crate::stream::Entry;
use std::collections::VecDeque;

/// Length of IUCV's message.
const MESSAGE_BYTES: usize = 40;
/// Maximum number of entries that fit after the message.
pub const ENTRIES_MAX: usize = (FRAME_BYTES - MESSAGE_BYTES) / Entry::BYTES;
/// Maximum number of frames of an entry: the frames of a segment of 64 MiB.
const FRAMES_MAX: usize = 16_384;

/// An invalid part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Offset in the file.
    pub at: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Description of the fault.
    pub what: &'static str,
}

/// Reader of a file, page by page.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// Offset of the next page.
    at: u64,
    /// Parts of the expected pages that contain records.
    expected: VecDeque<(usize, usize)>,
    gaps: Vec<Gap>,
}

/// Returns the entries of a directory page, or `None` for any other page.
fn entries(page: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    for bytes in page.get(MESSAGE_BYTES..)?.chunks_exact(Entry::BYTES) {
        if bytes.iter().all(|byte| *byte == 0) {
            break;
        }
        let entry = Entry::read(bytes).ok().filter(Entry::is_known)?;
        let frames = (entry.offset() + entry.length()).div_ceil(FRAME_BYTES);
        entries.push(entry);
        if frames > FRAMES_MAX {
            return None;
        }
    }
    (!entries.is_empty()).then_some(entries)
}

/// Returns true if the page can have records from this offset on.
fn has_records(page: &[u8], from: usize) -> bool {
    let is_record = |bytes| {
        let head = Head::read(bytes).ok()?;
        let length = usize::from(head.length);
        Some(head.zero == 0 && length >= Head::BYTES && length <= bytes.len())
    };
    page.get(from..).and_then(is_record).unwrap_or(false)
}

/// Returns the number of bytes at the end of a part of a page that are not records.
fn lost_in(part: &[u8]) -> usize {
    let mut records = Records::of(part);
    records.by_ref().for_each(drop);
    records.lost()
}

impl Reader {
    /// Processes the next page, and passes each of its records to `each`. The last page may be
    /// shorter.
    pub fn page(&mut self, page: &[u8], mut each: impl FnMut(Found<'_>)) {
        let at = self.at;
        self.at += page.len() as u64;
        let length = page.len() as u64;
        if page.len() < FRAME_BYTES {
            self.gap(at, length, "the file ends within a page");
        }
        let Some((from, to)) = self.expected.pop_front() else {
            match entries(page) {
                Some(entries) => self.expect(&entries),
                None if page.len() == FRAME_BYTES => {
                    self.gap(at, length, "a control page is missing");
                    // A lost directory page may have named this page.
                    Records::of(page).for_each(each);
                }
                None => {}
            }
            return;
        };
        // A directory page may be in the place of a data page; the contents show the kind of page.
        if !has_records(page, from)
            && let Some(entries) = entries(page)
        {
            let lost = (self.expected.len() as u64 + 1) * FRAME_BYTES as u64;
            self.gap(at, lost, "pages listed in a control page are missing");
            self.expected.clear();
            self.expect(&entries);
            return;
        }
        let to = to.min(page.len());
        let named = page.get(from..to).unwrap_or_default();
        let lost = lost_in(named);
        if lost == 0 || page.len() < FRAME_BYTES {
            Records::of(named).for_each(each);
        } else if lost_in(page) == 0 {
            self.gap(at, length, "another page stands in the place of the expected page");
            Records::of(page).for_each(each);
        } else {
            Records::of(named).for_each(&mut each);
            self.gap(at + (to - lost) as u64, lost as u64, "these bytes are not a record");
        }
    }

    /// Ends the file, and returns its gaps.
    pub fn end(mut self) -> Vec<Gap> {
        let missing = self.expected.len() as u64 * FRAME_BYTES as u64;
        if missing > 0 {
            self.gap(self.at, missing, "the file ends before the pages that it lists");
        }
        self.gaps
    }

    fn expect(&mut self, entries: &[Entry]) {
        for entry in entries {
            let mut left = entry.offset() + entry.length();
            let mut from = entry.offset();
            while left > 0 {
                let to = left.min(FRAME_BYTES);
                self.expected.push_back((from, to));
                (left, from) = (left - to, 0);
            }
        }
    }

    fn gap(&mut self, at: u64, bytes: u64, what: &'static str) {
        match self.gaps.last_mut() {
            // Consecutive bad pages are one gap.
            Some(last) if last.what == what && last.at + last.bytes == at => last.bytes += bytes,
            _ => self.gaps.push(Gap { at, bytes, what }),
        }
    }
}

/// Writer of a file. The records of an interval are passed together, and the last record marks the
/// interval's end.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// Address of the next frames in the simulated segment.
    from: u32,
}

/// Frames of the segment, which is written from start to end, and then from the start again.
const SEGMENT_FRAMES: u32 = 8_192;
/// Address of the segment.
const SEGMENT_AT: u32 = 0x0600_0000;

impl<W: FnMut(&[u8])> Writer<W> {
    /// Creates a writer that passes pages to a function.
    pub fn new(out: W) -> Writer<W> {
        Writer { out, from: SEGMENT_AT }
    }

    /// Writes an interval. Records longer than a frame are left out.
    pub fn interval<'a>(&mut self, records: impl Iterator<Item = &'a [u8]>) {
        let mut frames: Vec<Vec<u8>> = Vec::new();
        for record in records.filter(|record| record.len() <= FRAME_BYTES) {
            match frames.last_mut().filter(|last| last.len() + record.len() <= FRAME_BYTES) {
                Some(last) => last.extend(record),
                None => frames.push(record.to_vec()),
            }
        }
        for some in frames.chunks(ENTRIES_MAX) {
            self.pages(some);
        }
    }

    fn pages(&mut self, frames: &[Vec<u8>]) {
        let mut page = vec![0; FRAME_BYTES];
        for (number, frame) in frames.iter().enumerate() {
            let entry = Entry::of_samples(self.from, self.from + frame.len() as u32 - 1);
            entry.write(&mut page[MESSAGE_BYTES + number * Entry::BYTES..]);
            self.from += FRAME_BYTES as u32;
            if self.from >= SEGMENT_AT + SEGMENT_FRAMES * FRAME_BYTES as u32 {
                self.from = SEGMENT_AT;
            }
        }
        (self.out)(&page);
        for frame in frames {
            page.clear();
            page.extend(frame);
            page.resize(FRAME_BYTES, 0);
            (self.out)(&page);
        }
    }
}
