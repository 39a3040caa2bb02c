//! Memory that a process needed when it woke, brought back ahead of it the next time.
//!
//! ```text
//!   a while after a wake: /proc/PID/pagemap ─► InMemory (pages)
//!   the next wake:        InMemory::fetch ─► process_vm_readv, a byte of each that is in swap
//! ```
//!
//! Nothing else is touched: a page that is in memory need not come, and one that KSM has made one
//! of many would become a page of its own by it.
//!
//! The kernel brings a page back from swap whoever touches it. So another CPU can do that while
//! the process itself does what comes first. `MADV_WILLNEED` would be made for it, but passes over
//! private pages of a mapped file, which all memory of a clone is.

use std::fs::File;
use std::os::unix::fs::FileExt;

use counters::Bytes;
use procfs::Buffer;

use crate::pageout::{PageOut, PageOutError};
use crate::sys::{self, Stretch};
use crate::{ProcessId, Stat};

/// Who had more pages in memory was not paged out before: that tells nothing of what it needs.
const PAGES_MAX: u64 = 8192;
/// Pages in one call, after which who was stopped meanwhile is left alone. The kernel takes 1,024.
const PAGES_AT_ONCE: usize = 512;
/// From Documentation/admin-guide/mm/pagemap.rst.
const PRESENT: u64 = 1 << 63;
const IN_SWAP: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
/// Bytes of pagemap for a page.
const ENTRY: usize = 8;

/// Pages of a process, of its own first, then those of files. What belongs to nobody else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InMemory {
    runs: Vec<Run>,
}

/// Pages that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    page: u64,
    count: u32,
}

impl InMemory {
    /// What of a process's own memory is in the host's memory now; nothing of one that is stopped,
    /// for it may just be paged out.
    pub fn of(process: ProcessId) -> Result<InMemory, PageOutError> {
        InMemory::at_most(process, PAGES_MAX)
    }

    fn at_most(process: ProcessId, pages_max: u64) -> Result<InMemory, PageOutError> {
        let slices = PageOut::open(process)?.slices(&mut Buffer::default())?;
        let pagemap = File::open(format!("/proc/{}/pagemap", process.pid));
        let pagemap = pagemap.map_err(PageOutError::Refused)?;
        let page_bytes = rustix::param::page_size();
        let (mut own, mut of_files) = (Vec::new(), Vec::new());
        let mut entries = Vec::new();
        for stretch in slices.iter().flat_map(|slice| slice.stretches()) {
            let first = stretch.start / page_bytes;
            entries.resize(stretch.length / page_bytes * ENTRY, 0);
            // A mapping that has gone meanwhile has no entries.
            let read = pagemap.read_at(&mut entries, (first * ENTRY) as u64).unwrap_or(0);
            let (entries, _) = entries[..read].as_chunks::<ENTRY>();
            for (page, entry) in (first as u64..).zip(entries) {
                match u64::from_ne_bytes(*entry) {
                    entry if entry & PRESENT == 0 => {}
                    entry if entry & OF_FILE == 0 => add(&mut own, page),
                    _ => add(&mut of_files, page),
                }
            }
        }
        own.append(&mut of_files);
        let found = InMemory { runs: own };
        match Stat::of(process) {
            None => Err(PageOutError::Gone),
            Some(stat) if stat.is_stopped() => Ok(InMemory::default()),
            Some(_) if found.pages() > pages_max => Ok(InMemory::default()),
            Some(_) => Ok(found),
        }
    }

    /// How much that is.
    pub fn size(&self) -> Bytes {
        Bytes(self.pages() * rustix::param::page_size() as u64)
    }

    fn pages(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }

    /// Brings back what of it is in swap. It ends early if the process is stopped or gone: that is
    /// looked at before each 512 pages.
    pub fn fetch(&self, process: ProcessId) -> Result<(), PageOutError> {
        let pagemap = File::open(format!("/proc/{}/pagemap", process.pid));
        let pagemap = pagemap.map_err(PageOutError::Refused)?;
        let mut places = Vec::with_capacity(PAGES_AT_ONCE);
        let mut entries = Vec::new();
        for run in &self.runs {
            entries.resize(run.count as usize * ENTRY, 0);
            let read = pagemap.read_at(&mut entries, run.page * ENTRY as u64).unwrap_or(0);
            let (entries, _) = entries[..read].as_chunks::<ENTRY>();
            for (page, entry) in (run.page..).zip(entries) {
                if u64::from_ne_bytes(*entry) & IN_SWAP != 0 {
                    let start = page as usize * rustix::param::page_size();
                    places.push(Stretch { start, length: 1 });
                }
                if places.len() == PAGES_AT_ONCE {
                    touch(process, &mut places)?;
                }
            }
        }
        touch(process, &mut places)
    }
}

/// Reads a byte of each place, and forgets them; of no process that is stopped.
fn touch(process: ProcessId, places: &mut Vec<Stretch>) -> Result<(), PageOutError> {
    let stat = Stat::of(process).ok_or(PageOutError::Gone)?;
    let mut rest = if stat.is_stopped() { &[] } else { places.as_slice() };
    while !rest.is_empty() {
        // The first that was not read is mapped no more.
        let read = sys::touch(process.pid, rest).map_err(PageOutError::Refused)?;
        rest = rest.get(read + 1..).unwrap_or_default();
    }
    places.clear();
    Ok(())
}

fn add(runs: &mut Vec<Run>, page: u64) {
    match runs.last_mut() {
        Some(run) if run.page + u64::from(run.count) == page => run.count += 1,
        _ => runs.push(Run { page, count: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 32 << 20;

    #[test]
    fn what_was_touched_is_in_memory_and_may_be_fetched() {
        let mut memory = vec![0_u8; SIZE];
        let end = SIZE - 1;
        memory[end] = 1;
        let process = ProcessId::of(std::process::id()).unwrap();
        let found = InMemory::at_most(process, u64::MAX).unwrap();
        let few = InMemory::at_most(process, found.pages() / 2).unwrap();
        assert_eq!(few, InMemory::default(), "it was not paged out");
        let page_of = |at: usize| {
            (std::ptr::from_ref(&memory[at]).addr() / rustix::param::page_size()) as u64
        };
        let has = |page: u64| {
            found.runs.iter().any(|run| (run.page..run.page + u64::from(run.count)).contains(&page))
        };
        assert!(has(page_of(end)));
        assert!(!has(page_of(SIZE / 2)), "it was never touched");
        assert!(found.size() < Bytes(SIZE as u64) && found.size() > Bytes::ZERO);
        found.fetch(process).unwrap();
        let none = InMemory { runs: vec![Run { page: 1, count: 3 }] };
        none.fetch(process).unwrap();
        let ended = ProcessId { start_ticks: process.start_ticks + 1, ..process };
        assert!(matches!(found.fetch(ended), Err(PageOutError::Gone)));
        assert!(matches!(InMemory::of(ended), Err(PageOutError::Gone)));
    }
}
