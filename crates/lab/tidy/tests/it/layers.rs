//! The workspace's crates depend on each other, and on external crates, only as the tables allow.

use std::process::Command;

use serde_json::Value;
use tidy::{layer_table, layers, packages, tree};

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

/// `PINHEAD_WRITE_DOCS=1 cargo test -p tidy` renews the table.
#[test]
fn table_of_layers_is_current() {
    let path = tree::root().join("ARCHITECTURE.md");
    let kept = std::fs::read_to_string(&path).unwrap();
    let made = layer_table::renewed(&kept, &tree::files().unwrap()).unwrap();
    if std::env::var_os("PINHEAD_WRITE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept == made, "ARCHITECTURE.md is stale: PINHEAD_WRITE_DOCS=1 cargo test -p tidy");
}

#[test]
fn packages_of_others_come_on_our_terms() {
    // The command is not offline, because a build of this crate alone does not fetch packages that
    // only other crates need.
    let metadata = metadata(&["--locked", "--filter-platform=x86_64-unknown-linux-gnu"]);
    let found = packages::complaints(&metadata);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// A changed dependency of any crate makes these lock files stale, and `make fuzz` and `make
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
