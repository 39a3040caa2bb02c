//! A guest's memory, read and written from outside while its QEMU does not touch it.
//!
//! ```text
//!   template ──┐                    own: what its QEMU has written to, by /proc/PID/pagemap
//!              ├─► guest's memory ──┤
//!   own pages ─┘                    rest: the template's, which need not be read to be known
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use base::PageRun;
use counters::Bytes;

use crate::pagemap::Pagemap;
use crate::sys::{self, Direction, Stretch};
use crate::{ProcessId, ProcessView};

/// Stretches in one call; the kernel takes 1,024.
const STRETCHES_MAX: usize = 512;
/// Pages whose entries are read at once.
const PAGES_AT_ONCE: u64 = 64 * 1024;

/// A guest's memory. Its pages are counted from its first one.
#[derive(Debug)]
pub struct GuestMemory {
    process: ProcessId,
    start: u64,
    bytes: u64,
}

impl GuestMemory {
    /// That of this process, which is so large. The error is a process without such a mapping.
    pub fn find(process: ProcessId, memory: Bytes) -> io::Result<GuestMemory> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "its QEMU is gone");
        let view = ProcessView::open(process).ok_or_else(gone)?;
        let ram = view.find_ram(memory);
        let ram = ram.ok_or_else(|| io::Error::other("its memory is not found in its QEMU"))?;
        Ok(GuestMemory { process, start: ram.start, bytes: memory.0 })
    }

    /// The pages that its process has written to, wherever they are now, in their order.
    pub fn own_pages(&self) -> io::Result<Vec<PageRun>> {
        let mut pagemap = Pagemap::open(self.process)?;
        let (first, count) = (self.start / page_bytes(), self.bytes / page_bytes());
        let mut own = Vec::new();
        for from in (0..count).step_by(PAGES_AT_ONCE as usize) {
            let length = PAGES_AT_ONCE.min(count - from);
            let mut seen = 0;
            for (page, entry) in pagemap.pages(first + from, length as usize) {
                seen += 1;
                if (entry.is_present() || entry.is_in_swap()) && !entry.is_of_file() {
                    PageRun::add(&mut own, page - first);
                }
            }
            if seen < length {
                return Err(io::Error::other("its pages cannot be told apart"));
            }
        }
        Ok(own)
    }

    /// Reads these pages, one behind the other.
    pub fn read(&self, runs: &[PageRun]) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; bytes_of(runs)];
        self.copy(runs, |pid, stretches, done| {
            sys::copy(pid, stretches, Direction::Read(&mut bytes[done..]))
        })?;
        Ok(bytes)
    }

    /// Writes these pages, of which the bytes are one behind the other.
    pub fn write(&self, runs: &[PageRun], bytes: &[u8]) -> io::Result<()> {
        if bytes.len() != bytes_of(runs) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not as many bytes as pages"));
        }
        self.copy(runs, |pid, stretches, done| {
            sys::copy(pid, stretches, Direction::Write(&bytes[done..]))
        })
    }

    /// Makes it the same as this file again wherever its process has written to it.
    pub fn reset_to(&self, template: &File) -> io::Result<()> {
        for run in self.own_pages()? {
            let mut bytes = vec![0; bytes_of(&[run])];
            template.read_exact_at(&mut bytes, run.first * page_bytes())?;
            self.write(&[run], &bytes)?;
        }
        Ok(())
    }

    /// Who calls this has not waited for the process's end yet, so that its number is its own.
    fn copy(
        &self,
        runs: &[PageRun],
        mut call: impl FnMut(u32, &[Stretch], usize) -> io::Result<usize>,
    ) -> io::Result<()> {
        let pages = self.bytes / page_bytes();
        if runs.iter().any(|run| run.end() > pages) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a page behind its memory"));
        }
        let mut done = 0;
        for some in runs.chunks(STRETCHES_MAX) {
            let stretch = |run: &PageRun| Stretch {
                start: (self.start + run.first * page_bytes()) as usize,
                length: bytes_of(&[*run]),
            };
            let stretches: Vec<Stretch> = some.iter().map(stretch).collect();
            let copied = call(self.process.pid, &stretches, done)?;
            // It copies all of it, up to the first that is not there.
            if copied != bytes_of(some) {
                return Err(io::Error::other("a part of its memory is gone"));
            }
            done += copied;
        }
        // Its number may have been another's meanwhile, which has no such memory.
        match self.process.is_alive() {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::NotFound, "its QEMU is gone")),
        }
    }
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

fn bytes_of(runs: &[PageRun]) -> usize {
    (PageRun::pages(runs) * page_bytes()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_and_written_where_they_are() {
        let page = page_bytes() as usize;
        let mut memory = vec![0_u8; 16 * page];
        let start = std::ptr::from_ref(&memory[0]).addr().next_multiple_of(page);
        let offset = start - std::ptr::from_ref(&memory[0]).addr();
        memory[offset + 2 * page] = 2;
        memory[offset + 9 * page] = 9;
        let process = ProcessId::of(std::process::id()).unwrap();
        let bytes = (8 * page) as u64;
        let guest = GuestMemory { process, start: start as u64, bytes };
        let runs = [PageRun { first: 2, count: 1 }, PageRun { first: 4, count: 2 }];
        let mut read = guest.read(&runs).unwrap();
        assert_eq!((read.len(), read[0]), (3 * page, 2));
        (read[0], read[page], read[3 * page - 1]) = (3, 4, 5);
        guest.write(&runs, &read).unwrap();
        // Nothing in sight has written to it.
        std::hint::black_box(&mut memory);
        let at = |page_number: usize| memory[offset + page_number * page];
        assert_eq!((at(2), at(4), memory[offset + 6 * page - 1], at(9)), (3, 4, 5, 9));
        let own = guest.own_pages().unwrap();
        assert!(own.iter().any(|run| run.first <= 2 && run.end() > 2), "{own:?}");
        assert!(guest.read(&[PageRun { first: 7, count: 2 }]).is_err(), "behind its memory");
        assert!(guest.write(&runs, &read[1..]).is_err());
        let ended = ProcessId { start_ticks: process.start_ticks + 1, ..process };
        assert!(GuestMemory { process: ended, ..guest }.read(&runs).is_err());
    }
}
