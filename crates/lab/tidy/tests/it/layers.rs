//! The workspace's crates depend on each other, and on external crates, as the tables allow.

use std::process::Command;

use serde_json::Value;
use tidy::{layers, packages, tree};

fn metadata(args: &[&str]) -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1"])
        .args(args)
        .current_dir(tree::root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

#[test]
fn crates_use_only_what_is_below_them() {
    let metadata = metadata(&["--no-deps", "--offline"]);
    assert!(metadata["packages"].as_array().is_some_and(|packages| packages.len() > 1));
    let mut found = layers::complaints(&metadata);
    found.extend(layers::complaints_of_daemon(&metadata));
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn packages_of_others_come_on_our_terms() {
    // The command is not offline, because a build of this crate alone does not fetch packages that
    // only other crates need.
    let metadata = metadata(&["--locked", "--filter-platform=x86_64-unknown-linux-gnu"]);
    let found = packages::complaints(&metadata);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// A changed dependency of any crate makes these files stale, and `make fuzz` and `make
/// test-python` refuse a stale file.
#[test]
fn the_lock_files_of_the_other_workspaces_are_current() {
    for manifest in ["fuzz/Cargo.toml", "python/Cargo.toml"] {
        let other = metadata(&[
            "--locked",
            &format!("--manifest-path={manifest}"),
            "--filter-platform=x86_64-unknown-linux-gnu",
        ]);
        assert!(other["packages"].as_array().is_some_and(|packages| packages.len() > 1));
    }
}
