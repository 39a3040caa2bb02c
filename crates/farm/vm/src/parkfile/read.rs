//! Reader of the file. The content is untrusted.

use std::io::Read;

use base::PageRun;

use crate::parkfile::block::{self, Kind, MAGIC};
use crate::parkfile::{Error, Header, damaged};

/// Maximum size of device state, in bytes. No machine has as much device state.
const DEVICES_MAX: u64 = 256 << 20;
/// Total length of the numbers in the header, in bytes.
const NUMBERS: usize = 32;
const NAME_MAX: usize = 255;
/// Length of a run, in bytes.
const RUN: usize = 12;

/// A part of the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// A part of the device state that QEMU has written.
    Devices(Vec<u8>),
    /// Pages of the guest's memory.
    Pages {
        /// Ranges of pages.
        runs: Vec<PageRun>,
        /// The pages' content, one page after the other.
        bytes: Vec<u8>,
    },
}

/// Reader of a file, which returns one part after the other.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: Header,
    blocks: u64,
    /// Smallest page number that may follow, because pages are in ascending order and occur once.
    next_page: u64,
    devices_bytes: u64,
    is_over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn new(mut from: R) -> Result<Reader<R>, Error> {
        let mut magic = [0; MAGIC.len()];
        match from.read_exact(&mut magic) {
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                return Err(error.into());
            }
            Ok(()) if magic == MAGIC => {}
            _ => return Err(damaged("it does not begin like the file of a parked guest")),
        }
        let (Kind::Header, bytes) = block::read(&mut from, 0)? else {
            return Err(damaged("it has no header"));
        };
        let header = header(&bytes).ok_or_else(|| damaged("its header is not valid"))?;
        Ok(Reader { from, header, blocks: 1, next_page: 0, devices_bytes: 0, is_over: false })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the next part. Returns `None` after the last part of a complete file.
    pub fn next_part(&mut self) -> Result<Option<Part>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let number = self.blocks;
        let wrong = |what: &str| damaged(format!("block {number} {what}"));
        let (kind, mut bytes) = block::read(&mut self.from, number)?;
        self.blocks += 1;
        match kind {
            Kind::Header => Err(wrong("is a second header")),
            Kind::Devices => {
                self.devices_bytes += bytes.len() as u64;
                match self.devices_bytes > DEVICES_MAX {
                    true => Err(wrong("has more device data than any machine")),
                    false => Ok(Some(Part::Devices(bytes))),
                }
            }
            Kind::Pages => {
                let runs = self.runs(&bytes).ok_or_else(|| wrong("has impossible page numbers"))?;
                bytes.drain(..4 + runs.len() * RUN);
                Ok(Some(Part::Pages { runs, bytes }))
            }
            Kind::End if bytes == number.to_le_bytes() => {
                self.is_over = true;
                match self.from.read(&mut [0])? {
                    0 => Ok(None),
                    _ => Err(damaged("there is data behind its end")),
                }
            }
            Kind::End => Err(wrong("ends the file too early")),
        }
    }

    /// Parses the runs of a block. Valid runs are in ascending order, lie within the guest's
    /// memory, and match the number of pages in the block.
    fn runs(&mut self, bytes: &[u8]) -> Option<Vec<PageRun>> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (runs, pages) = rest.split_at_checked(count.checked_mul(RUN)?)?;
        let (runs, _) = runs.as_chunks::<RUN>();
        let read = |run: &[u8; RUN]| {
            let (first, count) = run.split_first_chunk::<8>()?;
            let count = u32::from_le_bytes(count.try_into().ok()?);
            Some(PageRun { first: u64::from_le_bytes(*first), count })
        };
        let runs = runs.iter().map(read).collect::<Option<Vec<_>>>()?;
        let last = self.header.memory_bytes / self.header.page_bytes;
        for run in &runs {
            let end = run.first.checked_add(u64::from(run.count))?;
            if run.count == 0 || run.first < self.next_page || end > last {
                return None;
            }
            self.next_page = end;
        }
        let expected = PageRun::pages(&runs).checked_mul(self.header.page_bytes)?;
        (expected == pages.len() as u64).then_some(runs)
    }
}

/// Reads a whole file, and returns its header if the file is complete.
pub fn check(from: impl Read) -> Result<Header, Error> {
    let mut reader = Reader::new(from)?;
    while reader.next_part()?.is_some() {}
    Ok(reader.header)
}

fn header(bytes: &[u8]) -> Option<Header> {
    let (numbers, name) = bytes.split_first_chunk::<NUMBERS>()?;
    let (numbers, _) = numbers.as_chunks::<8>();
    let [machine, memory_bytes, page_bytes, saved_at_s] =
        [0, 1, 2, 3].map(|at| u64::from_le_bytes(numbers[at]));
    let is_possible = page_bytes.is_power_of_two() && memory_bytes % page_bytes == 0;
    let guest = String::from_utf8(name.to_vec()).ok()?;
    let is_name = !guest.is_empty() && guest.len() <= NAME_MAX;
    (is_possible && is_name).then_some(Header {
        guest,
        machine,
        memory_bytes,
        page_bytes,
        saved_at_s,
    })
}
