//! A directory for the files of one measurement.

use crate::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory of our own that goes when this does.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one. The name is for who finds it while it is there.
    pub fn new(name: &str) -> Result<Scratch, Error> {
        let name = format!("pinhead-bench-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).map_err(|e| Error::file(&dir, e))?;
        Ok(Scratch(dir))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What could not be removed is in a directory for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a file.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|e| Error::file(path, e))
}
