//! Rules of text that rustfmt and clippy do not check.

use crate::lexer::code_only;
use crate::tree::{File, in_crate};

/// Maximum number of lines of a Rust file, and of columns in a line of Rust or of a script.
const LINES_MAX: usize = 500;
const COLUMNS_MAX: usize = 100;
/// The first file that a newcomer reads, often in a terminal, and its limits. Rows of a table
/// cannot be broken, so they may be wider.
const README: &str = "README.md";
const README_LINES_MAX: usize = 100;
const README_COLUMNS_MAX: usize = 80;

/// A file that is exempt from one check, and the reason.
pub type Exception = (&'static str, &'static str);

/// Rust files that may contain `unsafe`.
pub const UNSAFE: &[Exception] = &[
    ("crates/lab/lab/src/bin/bench/sys.rs", "what is measured stays on one CPU, and dies with us"),
    ("crates/monitor/collect/src/sys.rs", "cachestat, which no library has"),
    ("crates/farm/farm/src/sys.rs", "swapon and swapoff, which no library has"),
    ("crates/host/hypervisor/src/sys.rs", "process_madvise, which no library has"),
    (
        "crates/system/procfs/src/sys.rs",
        "paths from an open directory, and its entries, without a library",
    ),
    (
        "crates/guest/pinheadd/src/interface.rs",
        "an interface's address, without a library for netlink",
    ),
    ("crates/guest/pinheadd/src/sys.rs", "signals as files and waiting, without a runtime"),
    (
        "crates/system/reactor/src/sys.rs",
        "the process at the other end of a socket, whole and as a descriptor",
    ),
    (
        "crates/farm/vm/src/images/sys.rs",
        "a child that dies with us, and inherits chosen files only",
    ),
    (
        "crates/farm/vm/src/sys.rs",
        "a child's rights, filter and memory, and the time stamp counter",
    ),
    ("fuzz/src/main.rs", "an allocator that counts, in the fuzzer's program only"),
];

/// Test programs that scripts/test runs. Each is a directory below `tests`.
const PROGRAMS: &[&str] = &["it", "guests", "kvm", "slow"];

/// Constructs that the Rust code must not contain, each with its replacement.
const BANNED: &[(&str, &str)] = &[
    ("todo!", "finish it, or return an error that says what is not there"),
    ("unimplemented!", "finish it, or return an error that says what is not there"),
    ("dbg!", "remove it"),
    ("#[ignore", "mend the test or remove it: nobody runs what is ignored"),
];

/// Returns all complaints about the files' text.
pub fn complaints(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        found.extend(layout(file));
        if file.path.ends_with(".rs") {
            found.extend(code(file));
        }
    }
    found.extend(needless(files, UNSAFE));
    found
}

/// Checks tabs, and the ends of the lines and of the file. Lines outside Markdown and TOML must
/// also not be too wide.
fn layout(file: &File) -> Vec<String> {
    let File { path, text } = file;
    let mut found = Vec::new();
    for (line, at) in text.lines().zip(1..) {
        if line.contains('\t') && !path.ends_with("Makefile") {
            found.push(format!("{path}:{at}: a tab: use spaces"));
        }
        if line.ends_with(char::is_whitespace) {
            found.push(format!("{path}:{at}: white space at the end"));
        }
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !path.ends_with(".md") && !path.ends_with(".toml") {
            found.push(format!("{path}:{at}: {columns} columns; {COLUMNS_MAX} fit"));
        }
    }
    if path == README {
        found.extend(readme(text));
    }
    if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
        found.push(format!("{path}: ends with exactly one line end, please"));
    }
    found
}

fn readme(text: &str) -> Vec<String> {
    let is_wide = |line: &&str| line.chars().count() > README_COLUMNS_MAX && !line.starts_with('|');
    let lines = text.lines().zip(1..).filter(|(line, _)| is_wide(line));
    let mut found: Vec<String> = lines
        .map(|(_, at)| format!("{README}:{at}: wider than {README_COLUMNS_MAX} columns"))
        .collect();
    if text.lines().count() > README_LINES_MAX {
        found.push(format!("{README}: more than {README_LINES_MAX} lines: move a part to docs"));
    }
    found
}

fn code(file: &File) -> Vec<String> {
    let path = &file.path;
    let code = code_only(&file.text);
    let mut found = Vec::new();
    for (line, at) in code.lines().zip(1..) {
        for (banned, instead) in BANNED {
            if line.contains(banned) {
                found.push(format!("{path}:{at}: `{banned}`: {instead}"));
            }
        }
    }
    if file.text.lines().count() > LINES_MAX {
        found.push(format!("{path}: more than {LINES_MAX} lines: split it by its jobs"));
    }
    if let Some(at) = first_unsafe(&code)
        && !UNSAFE.iter().any(|(excepted, _)| excepted == path)
    {
        found
            .push(format!("{path}:{at}: unsafe code: list it in tidy's text::UNSAFE, or avoid it"));
    }
    if let Some(at) = first_sleep(path, &code) {
        found.push(format!("{path}:{at}: a test sleeps: wait for the condition instead"));
    }
    if is_unknown_program(path) {
        let known = PROGRAMS.join(", ");
        found.push(format!("{path}: nobody runs it: programs of tests are called {known}"));
    }
    found
}

/// Returns true if the file begins a test program that scripts/test does not run.
fn is_unknown_program(path: &str) -> bool {
    let Some((_, inside)) = in_crate(path) else { return false };
    match inside.split('/').collect::<Vec<_>>()[..] {
        ["tests", _] => true,
        ["tests", name, "main.rs"] => !PROGRAMS.contains(&name),
        _ => false,
    }
}

/// Returns the line of the first word `unsafe`. The lint's name `unsafe_code` is another word.
fn first_unsafe(code: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let says = |line: &str| line.split(|c| !is_word(c)).any(|word| word == "unsafe");
    code.lines().position(says).map(|line| line + 1)
}

/// Returns the line of the first sleep in a test. Tests are the files under `tests`, files with the
/// name `tests.rs`, and all lines below a `#[cfg(test)]`.
fn first_sleep(path: &str, code: &str) -> Option<usize> {
    let mut in_tests = path.contains("/tests/") || path.ends_with("/tests.rs");
    for (line, at) in code.lines().zip(1..) {
        in_tests |= line.contains("#[cfg(test)]");
        let is_disguised = line.contains("wait_until(") && line.contains("|| false");
        if in_tests && (is_disguised || line.contains("thread::sleep")) {
            return Some(at);
        }
    }
    None
}

/// Returns complaints about exceptions for files that are gone, or do not need an exception.
fn needless(files: &[File], exceptions: &[Exception]) -> Vec<String> {
    let says = |file: &File| first_unsafe(&code_only(&file.text)).is_some();
    let needed = |path: &str| files.iter().any(|file| file.path == path && says(file));
    exceptions
        .iter()
        .filter(|(path, _)| !needed(path))
        .map(|(path, _)| format!("{path}: no longer needs its place in tidy's text::UNSAFE"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn check(path: &str, text: &str, expected: &[&str]) {
        let file = file(path, text);
        let mut found = layout(&file);
        found.extend(code(&file));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, part) in found.iter().zip(expected) {
            assert!(found.contains(part), "{found:?} should say {part:?}");
        }
    }

    #[test]
    fn a_tidy_file_passes() {
        check("a/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n// todo! unsafe\n", &[]);
    }

    #[test]
    fn layout_is_checked() {
        check("a.rs", "a\tb\n", &["a.rs:1: a tab"]);
        check("a.rs", "a \n", &["a.rs:1: white space"]);
        check("a.rs", "a", &["exactly one line end"]);
        check("a.rs", "a\n\n", &["exactly one line end"]);
        check("a.rs", &format!("b\n{}\n", "é".repeat(101)), &["a.rs:2: 101 columns"]);
        check("a.rs", &format!("{}\n", "é".repeat(100)), &[]);
        let [fits, row, wide] = ["é".repeat(80), "x".repeat(99), "y".repeat(81)];
        let readme = format!("{fits}\n| {row} |\n{wide}\n");
        check("README.md", &readme, &["README.md:3: wider than 80"]);
        check("README.md", &"b\n".repeat(101), &["more than 100 lines"]);
    }

    #[test]
    fn code_is_checked() {
        check("a.rs", "f(todo!());\n", &["a.rs:1: `todo!`"]);
        check("a.rs", "\n#[ignore = \"slow\"]\n", &["a.rs:2: `#[ignore`"]);
        check("a.rs", "fn f() {\n  unsafe { g() }\n}\n", &["a.rs:2: unsafe code"]);
        check("a.rs", &"b\n".repeat(501), &["more than 500 lines"]);
        check("a.rs", &"b\n".repeat(500), &[]);
    }

    #[test]
    fn only_tests_may_not_sleep() {
        check("a/src/b.rs", "std::thread::sleep(d);\n", &[]);
        check("a/src/b.rs", "#[cfg(test)]\nthread::sleep(d);\n", &["a/src/b.rs:2: a test sleeps"]);
        check("a/tests/b.rs", "thread::sleep(d);\n", &["a/tests/b.rs:1: a test sleeps"]);
        let disguised = "let _ = wait_until(TIME, || false);\n";
        check("a/tests/b.rs", disguised, &["a/tests/b.rs:1: a test sleeps"]);
    }

    #[test]
    fn programs_of_tests_are_those_that_are_run() {
        check("crates/a/tests/it/main.rs", "//! A.\n", &[]);
        check("crates/a/tests/it/b.rs", "//! B.\n", &[]);
        check("crates/a/tests/b.rs", "//! B.\n", &["nobody runs it"]);
        check("crates/a/tests/b/main.rs", "//! B.\n", &["nobody runs it"]);
        check("crates/a/src/b/tests/c.rs", "//! C.\n", &[]);
    }

    #[test]
    fn an_exception_must_be_needed() {
        let files = [file("a.rs", "unsafe {}\n"), file("b.rs", "c\n")];
        let table = [("a.rs", ""), ("b.rs", ""), ("gone.rs", "")];
        let found = needless(&files, &table);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("b.rs") && found[1].starts_with("gone.rs"), "{found:?}");
    }
}
