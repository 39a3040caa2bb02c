//! Generated trees of /proc and /sys for this crate's tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of directories created so far, for unique names.
static MADE: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Tree {
    path: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinhead-collect-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Tree { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn place(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        let parent = path.parent().unwrap_or(&self.path);
        fs::create_dir_all(parent).unwrap_or_else(|e| panic!("{}: {e}", parent.display()));
        path
    }

    /// Writes a file with its directories. An existing file keeps its inode.
    pub(crate) fn file(&self, name: &str, text: &str) {
        let path = self.place(name);
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    pub(crate) fn link(&self, name: &str, target: &str) {
        let path = self.place(name);
        std::os::unix::fs::symlink(target, &path)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    pub(crate) fn remove(&self, name: &str) {
        let path = self.path.join(name);
        let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        gone.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
