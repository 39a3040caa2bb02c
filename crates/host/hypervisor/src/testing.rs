//! Fake trees of /proc and /sys, and directories for sockets, for the tests of this crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of directories that this process has made, which keeps their names unique.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A directory that is removed on drop.
pub(crate) struct Tree {
    path: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinhead-hv-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Tree { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file, and creates its directories.
    pub(crate) fn file(&self, name: &str, text: &str) {
        let path = self.path.join(name);
        let parent = path.parent().unwrap_or(&self.path);
        fs::create_dir_all(parent).unwrap_or_else(|e| panic!("{}: {e}", parent.display()));
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// Writes the /proc/PID/stat of a process with 12 major faults.
    pub(crate) fn process(&self, pid: u32, name: &str, state: char, start_ticks: u64) {
        let stat = format!(
            "{pid} ({name}) {state} 1 1 1 0 -1 4194560 900 0 12 0 50 60 0 0 20 0 3 0 \
             {start_ticks} 300000000 2500 18446744073709551615\n"
        );
        self.file(&format!("proc/{pid}/stat"), &stat);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
