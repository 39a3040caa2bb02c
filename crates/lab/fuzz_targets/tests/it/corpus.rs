//! Runs every target over its committed inputs: the seeds, and inputs that once failed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzz_targets::{TARGETS, bounded};

/// Minimum number of inputs of a target: an ordinary input and a hostile input.
const INPUTS_MIN: usize = 2;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus")
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
        let count = inputs.len();
        assert!(
            count >= INPUTS_MIN,
            "fuzz/corpus/{name} has {count} inputs and needs {INPUTS_MIN}: add an ordinary and a \
             hostile input"
        );
        for input in inputs {
            // The panic shows the failed check, and this line shows the input.
            println!("{name}: {}", input.display());
            let bytes = fs::read(&input).unwrap();
            bounded(|| run(&bytes));
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

/// The fuzzer cuts an input to the target's limit before it runs the target.
#[test]
fn every_length_limit_has_a_target_and_fits_its_inputs() {
    let text = fs::read_to_string(corpus().join("../max_len")).unwrap();
    let mut lengths = std::collections::BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, length) = line.split_once(' ').expect("a target and its length");
        let length: u64 = length.trim().parse().expect("bytes");
        assert!(fuzz_targets::named(name).is_some(), "{name} is no target");
        assert!((4097..=4 << 20).contains(&length), "{name}: {length}");
        assert!(lengths.insert(name.to_owned(), length).is_none(), "{name} is there twice");
    }
    for (name, _) in TARGETS {
        let most = lengths.get(*name).copied().unwrap_or(4096);
        for input in entries(&corpus().join(name)) {
            let length = fs::metadata(&input).unwrap().len();
            assert!(length <= most, "{} has {length} bytes of {most}", input.display());
        }
    }
}
