//! What is fuzzed: one function a target, each from bytes to a panic or nothing.
//!
//! The functions are here and not in the fuzzer's binary, so that the same ones run over the
//! committed inputs as ordinary tests (`tests/corpus.rs`), and over new ones in `make fuzz`:
//!
//! ```text
//!   fuzz/corpus/TARGET/* ──► cargo test -p fuzz_targets ──┐
//!                                                         ├──► TARGETS
//!   libFuzzer ──► fuzz/src/main.rs (make fuzz) ───────────┘
//! ```
//!
//! A target that only calls a parser finds panics. A better one also states what must hold of
//! the result, whatever the input was.

#![forbid(unsafe_code)]

mod counter;

/// A target: its name, which is also its directory's under `fuzz/corpus`, and what it does
/// with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[("history", counter::history), ("retired", counter::retired)];

/// What the target of that name does.
pub fn named(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(target, _)| *target == name).map(|(_, run)| *run)
}
