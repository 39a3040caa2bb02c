//! Prefetch of the memory that a process needed when it last woke.
//!
//! ```text
//!   a while after a wake: /proc/PID/pagemap ─► InMemory (pages)
//!   the next wake:        InMemory::fetch ─► process_vm_readv, a byte of each page in swap
//! ```
//!
//! Only pages in swap are read. A page in memory need not be fetched, and a read would split a page
//! that KSM has merged.
//!
//! The kernel brings a page back from swap for any reader. So another CPU can fetch pages while the
//! process resumes. `MADV_WILLNEED` exists for this purpose, but skips private pages of a mapped
//! file. All memory of a clone consists of such pages.

use base::PageRun;

use crate::pagemap::{Entry, Pagemap, entries};
use crate::pageout::{PageOut, PageOutError};
use crate::sys::{self, Stretch};
use crate::{ProcessId, Stat};

/// Maximum number of resident pages of a process that is recorded. A process with more pages was
/// not paged out before, so its pages do not show what it needs at a wake-up.
const PAGES_MAX: u64 = 8192;
/// Pages in one call. Each call first checks the process, and skips a stopped process. The kernel
/// accepts 1,024 pages.
const PAGES_AT_ONCE: usize = 512;

/// Pages in memory that belong to a process alone. Pages of files are excluded, because they stay
/// in the host's page cache whether they were paged out or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InMemory {
    runs: Vec<PageRun>,
}

impl InMemory {
    /// Returns the pages of a process's own memory that are in the host's memory now. A stopped
    /// process yields none, because its page-out may be in progress.
    pub fn of(process: ProcessId) -> Result<InMemory, PageOutError> {
        InMemory::at_most(process, PAGES_MAX)
    }

    fn at_most(process: ProcessId, pages_max: u64) -> Result<InMemory, PageOutError> {
        let slices = PageOut::open(process)?.slices()?;
        let mut pagemap = Pagemap::open(process).map_err(PageOutError::Refused)?;
        let page_bytes = rustix::param::page_size();
        let mut runs = Vec::new();
        for stretch in slices.iter().flat_map(|slice| slice.stretches()) {
            let first = (stretch.start / page_bytes) as u64;
            own(&mut runs, pagemap.pages(first, stretch.length / page_bytes));
        }
        let found = InMemory { runs };
        match Stat::of(process) {
            None => Err(PageOutError::Gone),
            Some(stat) if stat.is_stopped() => Ok(InMemory::default()),
            Some(_) if found.pages() > pages_max => Ok(InMemory::default()),
            Some(_) => Ok(found),
        }
    }

    /// Returns the pages in memory from the bytes of a pagemap that starts at page `first`.
    pub fn of_entries(first: u64, pagemap: &[u8]) -> InMemory {
        let mut runs = Vec::new();
        own(&mut runs, entries(first, pagemap));
        InMemory { runs }
    }

    /// Returns the pages, in order of their addresses.
    pub fn runs(&self) -> &[PageRun] {
        &self.runs
    }

    fn pages(&self) -> u64 {
        PageRun::pages(&self.runs)
    }

    /// Fetches the pages that are in swap. The process is checked before every 512 pages. The pages
    /// of a stopped process are skipped, and an ended process is an error.
    pub fn fetch(&self, process: ProcessId) -> Result<(), PageOutError> {
        let mut pagemap = Pagemap::open(process).map_err(PageOutError::Refused)?;
        let mut places = Vec::with_capacity(PAGES_AT_ONCE);
        for run in &self.runs {
            for (page, entry) in pagemap.pages(run.first, run.count as usize) {
                if entry.is_in_swap() {
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

fn own(runs: &mut Vec<PageRun>, pages: impl Iterator<Item = (u64, Entry)>) {
    let own = pages.filter(|(_, entry)| entry.is_present() && !entry.is_of_file());
    own.for_each(|(page, _)| PageRun::add(runs, page));
}

/// Reads a byte of each place, unless the process is stopped, and clears the list.
fn touch(process: ProcessId, places: &mut Vec<Stretch>) -> Result<(), PageOutError> {
    let stat = Stat::of(process).ok_or(PageOutError::Gone)?;
    let mut rest = if stat.is_stopped() { &[] } else { places.as_slice() };
    while !rest.is_empty() {
        // The first unread place is no longer mapped, and is skipped.
        let read = sys::touch(process.pid, rest).map_err(PageOutError::Refused)?;
        rest = rest.get(read + 1..).unwrap_or_default();
    }
    places.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    const SIZE: usize = 32 << 20;

    #[test]
    fn touched_pages_are_in_memory_and_can_be_fetched() {
        let mut memory = vec![0_u8; SIZE];
        let end = SIZE - 1;
        memory[end] = 1;
        let process = ProcessId::of(std::process::id()).unwrap();
        let found = InMemory::at_most(process, u64::MAX).unwrap();
        let few = InMemory::at_most(process, found.pages() / 2).unwrap();
        assert_eq!(few, InMemory::default(), "the process was not paged out");
        let page_bytes = rustix::param::page_size();
        let page_of = |at: usize| (std::ptr::from_ref(&memory[at]).addr() / page_bytes) as u64;
        let has = |page: u64| found.runs.iter().any(|run| (run.first..run.end()).contains(&page));
        assert!(has(page_of(end)));
        assert!(!has(page_of(SIZE / 2)), "the page was never touched");
        assert!(found.pages() < (SIZE / page_bytes) as u64 && found.pages() > 0);
        found.fetch(process).unwrap();
        let none = InMemory { runs: vec![PageRun { first: 1, count: 3 }] };
        none.fetch(process).unwrap();
        let ended = ProcessId { start_ticks: process.start_ticks + 1, ..process };
        assert!(matches!(found.fetch(ended), Err(PageOutError::Gone)));
        assert!(matches!(InMemory::of(ended), Err(PageOutError::Gone)));
    }

    /// Pages mapped from this program's file. A write makes them private, as in a clone's memory.
    static OF_FILE: [AtomicU8; SIZE_OF_FILE] = [const { AtomicU8::new(1) }; SIZE_OF_FILE];
    const SIZE_OF_FILE: usize = 1 << 20;

    #[test]
    fn pages_of_a_file_count_once_they_are_written() {
        let process = ProcessId::of(std::process::id()).unwrap();
        let byte = &OF_FILE[SIZE_OF_FILE / 2];
        let page = (std::ptr::from_ref(byte).addr() / rustix::param::page_size()) as u64;
        let has = || {
            let found = InMemory::at_most(process, u64::MAX).unwrap();
            found.runs.iter().any(|run| (run.first..run.end()).contains(&page))
        };
        assert_eq!(byte.load(Ordering::Relaxed), 1, "the page is in memory");
        assert!(!has(), "the page is the file's");
        byte.store(2, Ordering::Relaxed);
        assert!(has(), "the page is the process's own");
    }
}
