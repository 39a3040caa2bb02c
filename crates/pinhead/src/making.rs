//! A directory that has a temporary name until it is complete.

use crate::{Error, RecordingsError};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Mode of a directory, which is the mode of the manager's own directories.
const DIR_MODE: u32 = 0o750;

/// A directory that gets its final name when it is complete. If the value is dropped earlier, the
/// directory is removed.
pub(crate) struct Making {
    to: PathBuf,
    partial: PathBuf,
}

impl Making {
    /// Begins a directory that must not exist yet.
    pub(crate) fn begin(to: &Path) -> Result<Making, Error> {
        if to.exists() {
            return Err(RecordingsError::Exists { path: to.into() }.into());
        }
        let name = to.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.ok_or_else(|| RecordingsError::NoName { path: to.into() })?;
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = format!(".{name}.partial-{}-{number}", std::process::id());
        let partial = to.with_file_name(own);
        // If this fails, the directory may belong to another process and must not be removed.
        make(&partial).map_err(|source| cannot_make(&partial, source))?;
        Ok(Making { to: to.to_owned(), partial })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.partial
    }

    pub(crate) fn add(&self, name: &str) -> Result<(), Error> {
        let path = self.partial.join(name);
        make(&path).map_err(|source| cannot_make(&path, source))
    }

    pub(crate) fn done(self) -> Result<(), Error> {
        fs::rename(&self.partial, &self.to).map_err(|source| cannot_make(&self.to, source))
    }
}

/// Makes a new directory. Other users may not read it, because it will contain names of guests.
fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIR_MODE).create(path)
}

fn cannot_make(path: &Path, source: io::Error) -> Error {
    Error::step(format!("Cannot make {}", path.display()), source)
}

impl Drop for Making {
    fn drop(&mut self) {
        // After a success the directory already has its final name, so this removes nothing.
        let _ = fs::remove_dir_all(&self.partial);
    }
}
