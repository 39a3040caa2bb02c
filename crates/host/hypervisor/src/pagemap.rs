//! Parser of /proc/PID/pagemap, which shows where each page of a process is. The file has eight
//! bytes per page, defined in the kernel's Documentation/admin-guide/mm/pagemap.rst.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::ProcessId;

const PRESENT: u64 = 1 << 63;
const IN_SWAP: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
const ENTRY: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    pub(crate) fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    pub(crate) fn is_in_swap(self) -> bool {
        self.0 & IN_SWAP != 0
    }

    /// Returns true for a page of a file that the process has not written to.
    pub(crate) fn is_of_file(self) -> bool {
        self.0 & OF_FILE != 0
    }
}

#[derive(Debug)]
pub(crate) struct Pagemap {
    file: File,
    bytes: Vec<u8>,
}

impl Pagemap {
    pub(crate) fn open(process: ProcessId) -> io::Result<Pagemap> {
        let file = File::open(format!("/proc/{}/pagemap", process.pid))?;
        Ok(Pagemap { file, bytes: Vec::new() })
    }

    /// Returns the entries of `count` pages from page `first` on, with the pages' numbers. Pages of
    /// a mapping that has vanished are left out.
    pub(crate) fn pages(&mut self, first: u64, count: usize) -> impl Iterator<Item = (u64, Entry)> {
        self.bytes.resize(count.saturating_mul(ENTRY), 0);
        let at = first.saturating_mul(ENTRY as u64);
        let read = self.file.read_at(&mut self.bytes, at).unwrap_or(0);
        entries(first, &self.bytes[..read])
    }
}

/// Returns the entries of these bytes, with the pages' numbers.
pub(crate) fn entries(first: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, Entry)> {
    let (entries, _) = bytes.as_chunks::<ENTRY>();
    (first..).zip(entries.iter().map(|entry| Entry(u64::from_ne_bytes(*entry))))
}
