//! `pinheadd --monwriter`: the daemon executes the program in the same directory.

use std::process::{Command, Output, Stdio};

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinheadd"));
    command.args(words).stdin(Stdio::null()).output().expect("pinheadd")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn other_programs_output_is_the_daemons() {
    // Only the other program checks the device and the interval.
    let dir = std::env::temp_dir();
    let dir = dir.to_str().expect("text");
    let output = run(&["--monwriter", "/nowhere/monwriter", "-f", "--run-dir", dir]);
    assert!(said(&output).contains("Cannot open /nowhere/monwriter"), "{output:?}");
    assert!(!output.status.success());
    let output = run(&["--monwriter", "/nowhere/monwriter", "--interval", "0"]);
    assert!(said(&output).contains("--interval is a number of seconds"), "{output:?}");
    let mut words = vec!["--monwriter", "/nowhere/monwriter"];
    words.extend(["-V"; 30]);
    let output = run(&words);
    assert!(said(&output).contains("Cannot run pinheadd-monwriter: "), "{output:?}");
    assert!(said(&output).contains("too long"), "{output:?}");
}

#[test]
fn missing_other_program_is_reported_by_the_daemon() {
    let dir = procfs::testing::Tree::create();
    let alone = dir.join("pinheadd");
    // Another process makes the copy. A copy that this process has open for writing would be
    // inherited by the children of other tests, and could not be executed meanwhile.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_pinheadd")).arg(&alone).status();
    assert!(copied.expect("cp").success());
    let output = Command::new(&alone).args(["--monwriter", "/nowhere/monwriter"]).output();
    let output = output.expect("pinheadd");
    assert!(said(&output).contains("Cannot run pinheadd-monwriter: No such file"), "{output:?}");
    assert!(!output.status.success());
}

#[test]
fn the_other_program_alone_is_for_that_alone() {
    let output = Command::new(env!("CARGO_BIN_EXE_pinheadd-monwriter")).arg("-v").output();
    let output = output.expect("pinheadd-monwriter");
    assert!(said(&output).contains("This program is for --monwriter"), "{output:?}");
}
