//! Files of the cache that processes use: open, mapped, or named on their command line.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use vm::images::Part;

/// Files below a directory that processes use.
pub(super) struct InUse(BTreeSet<PathBuf>);

impl InUse {
    pub(super) fn has(&self, part: &Part) -> bool {
        let of = |place: &PathBuf| self.0.iter().any(|used| used.starts_with(place));
        of(&part.path) || part.with.iter().any(of)
    }
}

/// Reads all processes that this user may inspect. A process that ends meanwhile uses no files.
pub(super) fn below(root: &Path, proc: &Path) -> InUse {
    let mut found = BTreeSet::new();
    let mut add = |bytes: &[u8]| {
        let path = Path::new(OsStr::from_bytes(bytes));
        if path.starts_with(root) {
            found.insert(path.to_owned());
        }
    };
    for process in fs::read_dir(proc).into_iter().flatten().flatten() {
        let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        if !process.file_name().to_str().is_some_and(is_process) {
            continue;
        }
        let process = process.path();
        for open in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            if let Ok(path) = fs::read_link(open.path()) {
                add(path.as_os_str().as_bytes());
            }
        }
        for line in read(&process.join("maps")).split(|&byte| byte == b'\n') {
            if let Some(at) = line.iter().position(|&byte| byte == b'/') {
                add(&line[at..]);
            }
        }
        // QEMU reads some files at its start and closes them. QEMU's options still contain the
        // names of these files: `-drive ...,file=PATH`.
        for word in read(&process.join("cmdline")).split(|byte| matches!(byte, 0 | b',' | b'=')) {
            add(word);
        }
    }
    InUse(found)
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_default()
}
