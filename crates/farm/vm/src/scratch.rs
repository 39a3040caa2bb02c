//! Directories for the files of one run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io};

/// A new private directory, removed on drop.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a directory. The name explains the directory's purpose to users.
    pub fn new(name: &str) -> io::Result<Scratch> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("pinhead-{name}-{}-{number}", std::process::id());
            let dir = env::temp_dir().join(name);
            match fs::create_dir(&dir) {
                // Another process with the same id left this directory, or another user created it
                // as a trap.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Scratch(dir)),
            }
        }
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in the directory.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that cannot be removed stay in a directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
