//! libFuzzer's side of the fuzz targets: it picks the one that `PINHEAD_FUZZ_TARGET` names.
//!
//! The targets themselves are in the crate `fuzz_targets`; `scripts/fuzz` builds and runs this.

#![no_main]

use std::sync::OnceLock;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fn named_target() -> fn(&[u8]) {
    let name = std::env::var("PINHEAD_FUZZ_TARGET").unwrap_or_default();
    fuzz_targets::named(&name).unwrap_or_else(|| {
        let names: Vec<_> = fuzz_targets::TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("PINHEAD_FUZZ_TARGET is {name:?}; it must be one of {}", names.join(", "));
        std::process::exit(2)
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET.get_or_init(named_target)(data));
