//! Targets for the mappings and pages of a QEMU, which its guest may control.

use base::{Bytes, PageRun};
use hypervisor::{GuestRam, InMemory, Slice};

use crate::input::texts;

/// Maximum memory passed to the kernel in one call.
const SLICE: Bytes = Bytes::mib(8);
/// Maximum number of slices: two TiB of memory, and a partial slice at the end.
const SLICES_MAX: usize = (1 << 18) + 1;
/// The bits of a pagemap's entry for a page that is in memory, and for a page of a file.
const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;
/// Memory sizes to search for, each with its pieces.
const MEMORIES: [(Bytes, &[Bytes]); 3] =
    [(Bytes(1), &[]), (Bytes::mib(96), &[]), (Bytes::mib(96), &[Bytes::mib(64), Bytes::mib(32)])];
/// The highest page of a process.
const PAGE_MAX: u64 = u64::MAX >> 12;

/// Parses lists of mappings, each as /proc/PID/maps and as smaps. Slices must not be empty and must
/// fit into a call. An unrelated mapping behind the others must not change the guest's memory.
pub(crate) fn process_maps(data: &[u8]) {
    for text in texts(data) {
        let slices = Slice::all_of(text);
        assert!(slices.len() <= SLICES_MAX, "{} slices", slices.len());
        for slice in &slices {
            assert!(slice.size() > Bytes::ZERO && slice.size() <= SLICE, "{slice:?}");
            assert!(slice.end() > 0);
        }
        for (memory, pieces) in MEMORIES {
            let Some(ram) = GuestRam::find(text, memory, pieces) else { continue };
            let held = ram.held(text);
            // If a list contains an address twice, two pieces may be counted as one and found only
            // in part.
            assert!(held.is_some() || pieces.len() > 1, "{ram:?} is among these mappings");
            let more = [text, b"\nffffffffffff0000-ffffffffffff1000 r--p 0 0:0 0\nRss: 7 kB\n"];
            assert_eq!(ram.held(more.concat().as_slice()), held);
            let shared = held.map_or(Bytes::ZERO, |held| held.shared);
            let is_whole = pieces.len() <= 1 && ram.is_shared();
            assert!(!is_whole || shared == Bytes::ZERO, "{held:?}");
        }
    }
}

/// Parses entries of a pagemap. The runs must contain exactly the pages that are in memory and do
/// not belong to a file.
pub(crate) fn pagemap(data: &[u8]) {
    let (entries, _) = data.as_chunks::<8>();
    let Some((first, entries)) = entries.split_first() else { return };
    let first = u64::from_ne_bytes(*first) % PAGE_MAX;
    let bytes = entries.as_flattened();
    let memory = InMemory::of_entries(first, bytes);
    let is_own = |entry: &&[u8; 8]| {
        let entry = u64::from_ne_bytes(**entry);
        entry & PRESENT != 0 && entry & OF_FILE == 0
    };
    let own = entries.iter().filter(is_own).count();
    assert_eq!(PageRun::pages(memory.runs()), own as u64);
    let mut next = first;
    for run in memory.runs() {
        assert!(run.first >= next && run.count > 0, "{run:?}");
        next = run.end() + 1;
    }
}
