//! Runs every target over its committed inputs: the seeds, and whatever once failed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzz_targets::TARGETS;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<_> = read.map(|entry| entry.expect("a directory entry").path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_target_survives_its_corpus() {
    for (name, run) in TARGETS {
        let inputs = entries(&corpus().join(name));
        assert!(!inputs.is_empty(), "fuzz/corpus/{name} is empty: give the target a seed");
        for input in inputs {
            // The panic says what broke, this line on which input: it is shown with it.
            println!("{name}: {}", input.display());
            run(&fs::read(&input).unwrap());
        }
    }
}

#[test]
fn every_corpus_has_a_target() {
    let targets: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let dirs: BTreeSet<_> = entries(&corpus())
        .iter()
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(dirs, targets, "directories of fuzz/corpus, and names in fuzz_targets::TARGETS");
}
