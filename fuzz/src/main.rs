//! libFuzzer's side of the fuzz targets: it runs the target that `PINHEAD_FUZZ_TARGET` names, and
//! measures the memory that each input takes.
//!
//! The targets themselves are in the crate `fuzz_targets`; `scripts/fuzz` builds and runs this
//! program.

#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fuzz_targets::MEMORY_MAX_KIB;

/// Size of an allocation that tests the counter.
const PROBE_BYTES: usize = 1 << 20;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

#[global_allocator]
static MEMORY: Counted = Counted { held: AtomicUsize::new(0), peak: AtomicUsize::new(0) };

/// The system's allocator with a counter of allocated bytes. Allocations of C and C++ code do not
/// count. Memory of libFuzzer is not meant to count; targets with SQLite use the kernel's counters
/// (`bounded`).
struct Counted {
    held: AtomicUsize,
    peak: AtomicUsize,
}

impl Counted {
    /// Returns the highest number of bytes that `run` holds beyond those held before.
    fn peak_of(&self, run: impl FnOnce()) -> usize {
        let before = self.held.load(Relaxed);
        self.peak.store(before, Relaxed);
        run();
        self.peak.load(Relaxed).saturating_sub(before)
    }

    fn add(&self, size: usize, at: *mut u8) -> *mut u8 {
        if !at.is_null() {
            let held = self.held.fetch_add(size, Relaxed).wrapping_add(size);
            self.peak.fetch_max(held, Relaxed);
        }
        at
    }
}

// SAFETY: the system's allocator does all the work and keeps the contract; this type only counts.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        self.add(layout.size(), unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        self.add(layout.size(), unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, from: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        let to = unsafe { System.realloc(from, layout, size) };
        if !to.is_null() {
            self.held.fetch_sub(layout.size(), Relaxed);
        }
        self.add(size, to)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.held.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(at, layout) }
    }
}

fn named_target() -> fn(&[u8]) {
    let name = std::env::var("PINHEAD_FUZZ_TARGET").unwrap_or_default();
    fuzz_targets::named(&name).unwrap_or_else(|| {
        let names: Vec<_> = fuzz_targets::TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("PINHEAD_FUZZ_TARGET is {name:?}; it must be one of {}", names.join(", "));
        std::process::exit(2)
    })
}

/// Panics if allocations are not counted: the fuzzer would then find nothing.
fn check_memory() {
    let bytes = MEMORY.peak_of(|| drop(black_box(Vec::<u8>::with_capacity(PROBE_BYTES))));
    assert!(bytes >= PROBE_BYTES, "the fuzzer counts {bytes} bytes where {PROBE_BYTES} were taken");
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let run = TARGET.get_or_init(|| {
        check_memory();
        named_target()
    });
    let kib = MEMORY.peak_of(|| run(data)) as u64 / 1024;
    assert!(
        kib <= MEMORY_MAX_KIB,
        "an input of {} bytes made its target hold {kib} KiB, and {MEMORY_MAX_KIB} is the most",
        data.len()
    );
});
