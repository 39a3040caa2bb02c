//! Guard against lost features. The test compares commands, options, values, reports, columns and
//! presets of the program with a stored list.
//!
//! `make docs` adds new entries to the list. A removed entry must be deleted from the list by hand,
//! and noted in the changelog.

use clap::CommandFactory;
use pinhead::cli::{self, Cli};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/surface.txt")
}

/// Adds the first word of each line in a command's list, with `what` before it. Below a heading
/// (`name: description`) the lines are the columns of that name.
fn listed(args: &[&str], what: &str, found: &mut BTreeSet<String>) {
    let output = process::Command::new(env!("CARGO_BIN_EXE_pinhead"))
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("pinhead {args:?}: {e}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let mut table = String::new();
    for line in text.lines() {
        let indented = line.starts_with(' ');
        let Some(first) = line.split_whitespace().next() else { continue };
        match first.strip_suffix(':') {
            Some(name) if !indented => table = format!("{name}."),
            _ if indented => _ = found.insert(format!("{what} {table}{first}")),
            _ => _ = found.insert(format!("{what} {first}")),
        }
    }
}

fn surface() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    cli::surface("pinhead", &Cli::command(), &mut found);
    listed(&["report"], "report", &mut found);
    listed(&["schema"], "column", &mut found);
    listed(&["names", "presets"], "preset", &mut found);
    found
}

#[test]
fn options_of_the_command_line_match_the_list() {
    let real = surface();
    let kept = kept();
    let listed = fs::read_to_string(&kept).unwrap_or_default();
    let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    if env::var_os("PINHEAD_WRITE_DOCS").is_some() {
        let all: BTreeSet<&String> = real.union(&listed).collect();
        let text: String = all.into_iter().map(|line| format!("{line}\n")).collect();
        fs::write(&kept, text).expect("the list is written");
        return;
    }
    let lost: Vec<_> = listed.difference(&real).collect();
    let new: Vec<_> = real.difference(&listed).collect();
    assert!(lost.is_empty(), "no longer there: {lost:#?}");
    assert!(new.is_empty(), "not in {}: {new:#?}", kept.display());
}

#[test]
fn command_ends_in_silence_when_nobody_reads_its_output() {
    for args in [
        &["presets", "default"][..],
        &["schema"],
        &["report"],
        &["names", "presets"],
        &["completions", "bash"],
        &["fleet", "--help"],
        &["help", "exec"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = process::Command::new(env!("CARGO_BIN_EXE_pinhead"));
        let output = command.args(args).stdout(writer).stderr(process::Stdio::piped());
        let output = output.output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{args:?}: {error}");
    }
}
