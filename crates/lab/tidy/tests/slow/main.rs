//! The examples of CONTRIBUTING.md: each is a small change that applies to the current tree and
//! compiles.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tidy::tree;

/// Maximum number of lines that an example adds and removes together.
const LINES_MAX: usize = 20;

/// Directories that a build of the tree does not need.
const LEFT_OUT: &[&str] = &["target", ".git", "fuzz", "results"];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
    for entry in fs::read_dir(from).unwrap_or_else(|e| panic!("{}: {e}", from.display())) {
        let entry = entry.expect("an entry");
        let (name, path) = (entry.file_name(), entry.path());
        if LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&path, &to.join(name)),
            false => _ = fs::copy(&path, to.join(name)).expect("a copy"),
        }
    }
}

fn diffs(document: &str) -> Vec<&str> {
    let blocks = document.split("\n```diff\n").skip(1);
    blocks.filter_map(|rest| rest.split_inclusive("```\n").next()?.strip_suffix("```\n")).collect()
}

#[test]
fn the_examples_for_contributors_apply_and_compile() {
    let document = fs::read_to_string(tree::root().join("CONTRIBUTING.md")).expect("a document");
    let diffs = diffs(&document);
    assert_eq!(diffs.len(), 4, "a clause, a message, a recorded field, an option");
    let copied = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
    let _ = fs::remove_dir_all(&copied);
    copy(&tree::root(), &copied);
    for diff in diffs {
        let is_change = |line: &&str| {
            line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---")
        };
        let changed = diff.lines().filter(is_change).count();
        assert!((1..=LINES_MAX).contains(&changed), "{changed} lines:\n{diff}");
        // The diff must apply outside a repository, and at line numbers other than its own.
        let mut git = Command::new("git")
            .args(["apply", "--unidiff-zero", "-"])
            .env("GIT_CEILING_DIRECTORIES", copied.parent().expect("a parent"))
            .current_dir(&copied)
            .stdin(Stdio::piped())
            .spawn()
            .expect("git");
        let written = git.stdin.take().expect("a pipe").write_all(diff.as_bytes());
        assert!(written.is_ok() && git.wait().expect("git").success(), "does not apply:\n{diff}");
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let check = Command::new(cargo)
        .args(["check", "--locked", "--offline", "--quiet", "--release"])
        .args(["-p", "pinhead", "-p", "pinheadd"])
        // `make lint` has already checked the external libraries in this directory.
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target"))
        // `scripts/test` sets this variable for the test harness.
        .env_remove("RUSTC_BOOTSTRAP")
        .current_dir(&copied)
        .output()
        .expect("cargo");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    fs::remove_dir_all(&copied).expect("the copy goes");
}
