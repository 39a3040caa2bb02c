//! Access to a guest's memory from outside, while the guest's QEMU does not use the memory.
//!
//! ```text
//!   template ──┐                    own: written by its QEMU, by /proc/PID/pagemap
//!              ├─► guest's memory ──┤
//!   own pages ─┘                    rest: equal to the template, so it need not be read
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use base::{Bytes, PageRun};

use crate::pagemap::Pagemap;
use crate::{ProcessId, ProcessView};

/// Number of pagemap entries read at once.
const PAGES_AT_ONCE: u64 = 64 * 1024;

/// A guest's memory. Pages are counted from the first page.
#[derive(Debug)]
pub struct GuestMemory {
    process: ProcessId,
    /// The file `/proc/PID/mem`. The open file never refers to another process that reuses the PID.
    memory: File,
    start: u64,
    bytes: u64,
}

impl GuestMemory {
    /// Finds the memory of this size in a process. A process without such a mapping is an error.
    pub fn find(process: ProcessId, memory: Bytes) -> io::Result<GuestMemory> {
        let view = ProcessView::open(process).ok_or_else(gone)?;
        let start = view.find_ram(memory, &[]).and_then(|ram| ram.start());
        let start = start.ok_or_else(|| io::Error::other("its memory is not found in its QEMU"))?;
        GuestMemory::open(process, start, memory.0)
    }

    fn open(process: ProcessId, start: u64, bytes: u64) -> io::Result<GuestMemory> {
        let path = format!("/proc/{}/mem", process.pid);
        let memory = File::options().read(true).write(true).open(path)?;
        // The number may have belonged to another process when the file was opened.
        match process.is_alive() {
            true => Ok(GuestMemory { process, memory, start, bytes }),
            false => Err(gone()),
        }
    }

    /// Returns the pages that the process has written to, in memory or in swap, in order.
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
                return Err(io::Error::other(
                    "the kernel did not describe all of the guest's pages",
                ));
            }
        }
        match self.process.is_alive() {
            true => Ok(own),
            false => Err(gone()),
        }
    }

    /// Reads these pages, one after the other.
    pub fn read(&self, runs: &[PageRun]) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; bytes_of(runs)];
        let mut left = &mut bytes[..];
        for run in runs {
            let (now, rest) = left.split_at_mut(bytes_of(&[*run]));
            self.memory.read_exact_at(now, self.at(*run)?).map_err(|_| gone())?;
            left = rest;
        }
        Ok(bytes)
    }

    /// Writes these pages from consecutive bytes.
    pub fn write(&self, runs: &[PageRun], bytes: &[u8]) -> io::Result<()> {
        if bytes.len() != bytes_of(runs) {
            let differ = "the number of bytes does not match the number of pages";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, differ));
        }
        let mut left = bytes;
        for run in runs {
            let (now, rest) = left.split_at(bytes_of(&[*run]));
            self.memory.write_all_at(now, self.at(*run)?).map_err(|_| gone())?;
            left = rest;
        }
        Ok(())
    }

    /// Overwrites all pages that the process has written to with their content in `template`.
    pub fn reset_to(&self, template: &File) -> io::Result<()> {
        for run in self.own_pages()? {
            let mut bytes = vec![0; bytes_of(&[run])];
            template.read_exact_at(&mut bytes, run.first * page_bytes())?;
            self.write(&[run], &bytes)?;
        }
        Ok(())
    }

    fn at(&self, run: PageRun) -> io::Result<u64> {
        match run.end() <= self.bytes / page_bytes() {
            true => Ok(self.start + run.first * page_bytes()),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "a page behind its memory")),
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "its QEMU has ended, or has unmapped this memory")
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
    use std::process::Command;

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
        let guest = GuestMemory::open(process, start as u64, bytes).unwrap();
        let runs = [PageRun { first: 2, count: 1 }, PageRun { first: 4, count: 2 }];
        let mut read = guest.read(&runs).unwrap();
        assert_eq!((read.len(), read[0]), (3 * page, 2));
        (read[0], read[page], read[3 * page - 1]) = (3, 4, 5);
        guest.write(&runs, &read).unwrap();
        // Without this call, the compiler would assume that the memory did not change.
        std::hint::black_box(&mut memory);
        let at = |page_number: usize| memory[offset + page_number * page];
        assert_eq!((at(2), at(4), memory[offset + 6 * page - 1], at(9)), (3, 4, 5, 9));
        let own = guest.own_pages().unwrap();
        assert!(own.iter().any(|run| run.first <= 2 && run.end() > 2), "{own:?}");
        assert!(guest.read(&[PageRun { first: 7, count: 2 }]).is_err(), "behind its memory");
        assert!(guest.write(&runs, &read[1..]).is_err());
    }

    #[test]
    fn finding2_13_memory_of_a_process_that_ended_is_nobodys() {
        let mut qemu = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = ProcessId::of(qemu.id()).unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.pid)).unwrap();
        let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
        let stack = u64::from_str_radix(stack.split('-').next().unwrap(), 16).unwrap();
        let guest = GuestMemory::open(process, stack, page_bytes()).unwrap();
        let run = [PageRun { first: 0, count: 1 }];
        let bytes = guest.read(&run).unwrap();
        let other = ProcessId { start_ticks: process.start_ticks + 1, ..process };
        assert!(GuestMemory::open(other, stack, page_bytes()).is_err(), "it is another process");
        qemu.kill().unwrap();
        qemu.wait().unwrap();
        assert!(guest.read(&run).is_err() && guest.write(&run, &bytes).is_err());
    }
}
