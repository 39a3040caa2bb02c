//! Writer of the file.

use std::io::{self, Write};

use base::PageRun;

use crate::parkfile::Header;
use crate::parkfile::block::{self, BLOCK_MAX, Kind, MAGIC};

/// Maximum number of bytes of pages in one block.
const PART_BYTES: u64 = 1 << 20;
/// Maximum number of runs in one block. [`BLOCK_MAX`] leaves room for these runs besides the pages.
const RUNS_MAX: u64 = 4096;

/// Writer of a file, from its header to its end.
#[derive(Debug)]
pub struct Writer<W> {
    into: W,
    blocks: u64,
    page_bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a file.
    pub fn new(mut into: W, header: &Header) -> io::Result<Writer<W>> {
        into.write_all(&MAGIC)?;
        let mut bytes = Vec::new();
        let numbers = [header.machine, header.memory_bytes, header.page_bytes, header.saved_at_s];
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(header.guest.as_bytes());
        let mut writer = Writer { into, blocks: 0, page_bytes: header.page_bytes };
        writer.block(Kind::Header, &bytes)?;
        Ok(writer)
    }

    /// Adds a part of QEMU's device state.
    pub fn devices(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(BLOCK_MAX).try_for_each(|part| self.block(Kind::Devices, part))
    }

    /// Adds these pages. `read` returns their bytes, one part after the other.
    pub fn pages(
        &mut self,
        runs: &[PageRun],
        mut read: impl FnMut(&[PageRun]) -> io::Result<Vec<u8>>,
    ) -> io::Result<()> {
        let pages_max = (PART_BYTES / self.page_bytes.max(1)).clamp(1, RUNS_MAX);
        let mut part: Vec<PageRun> = Vec::new();
        for run in runs.iter().flat_map(|run| pieces(*run, pages_max)) {
            if PageRun::pages(&part) + u64::from(run.count) > pages_max {
                self.part(&part, &read(&part)?)?;
                part.clear();
            }
            part.push(run);
        }
        match part.is_empty() {
            true => Ok(()),
            false => self.part(&part, &read(&part)?),
        }
    }

    fn part(&mut self, runs: &[PageRun], pages: &[u8]) -> io::Result<()> {
        if PageRun::pages(runs).checked_mul(self.page_bytes) != Some(pages.len() as u64) {
            return Err(io::Error::other("the number of bytes does not match the number of pages"));
        }
        let mut bytes = (runs.len() as u32).to_le_bytes().to_vec();
        for run in runs {
            bytes.extend(run.first.to_le_bytes());
            bytes.extend(run.count.to_le_bytes());
        }
        bytes.extend(pages);
        self.block(Kind::Pages, &bytes)
    }

    /// Writes the last block. Without this block the file is incomplete.
    pub fn finish(mut self) -> io::Result<W> {
        let count = self.blocks.to_le_bytes();
        self.block(Kind::End, &count)?;
        self.into.flush()?;
        Ok(self.into)
    }

    #[cfg(test)]
    pub(crate) fn into_parts(self) -> W {
        self.into
    }

    #[cfg(test)]
    pub(crate) fn raw_pages(&mut self, bytes: &[u8]) {
        self.block(Kind::Pages, bytes).unwrap();
    }

    fn block(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        self.blocks += 1;
        block::write(&mut self.into, kind, bytes)
    }
}

/// Splits a run into pieces that fit into a block.
fn pieces(run: PageRun, pages_max: u64) -> impl Iterator<Item = PageRun> {
    let starts = (run.first..run.end()).step_by(pages_max as usize);
    starts.map(move |first| PageRun { first, count: pages_max.min(run.end() - first) as u32 })
}
