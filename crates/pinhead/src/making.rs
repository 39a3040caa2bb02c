//! A directory that is filled, and is there under its name when it is whole.

use crate::Error;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// As the manager's own.
const DIR_MODE: u32 = 0o750;

/// Until it is whole it has another name, and goes if it does not come so far.
pub(crate) struct Making {
    to: PathBuf,
    partial: PathBuf,
}

impl Making {
    /// Begins one that is not there yet.
    pub(crate) fn begin(to: &Path) -> Result<Making, Error> {
        if to.exists() {
            let path = to.display();
            return Err(Error::Message(format!("{path} is there already: name a new directory")));
        }
        let name = to.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.ok_or_else(|| {
            Error::Message(format!("{} is no name for a new directory", to.display()))
        })?;
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = format!(".{name}.partial-{}-{number}", std::process::id());
        let partial = to.with_file_name(own);
        // Whoever did not make it does not take it away either.
        make(&partial).map_err(|source| cannot_make(&partial, source))?;
        Ok(Making { to: to.to_owned(), partial })
    }

    /// Where it is meanwhile.
    pub(crate) fn path(&self) -> &Path {
        &self.partial
    }

    /// Makes a directory in it.
    pub(crate) fn add(&self, name: &str) -> Result<(), Error> {
        let path = self.partial.join(name);
        make(&path).map_err(|source| cannot_make(&path, source))
    }

    /// It is whole.
    pub(crate) fn done(self) -> Result<(), Error> {
        fs::rename(&self.partial, &self.to).map_err(|source| cannot_make(&self.to, source))
    }
}

/// Nobody else's directory is filled, and nobody else reads what has guests' names in it.
fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIR_MODE).create(path)
}

fn cannot_make(path: &Path, source: io::Error) -> Error {
    Error::step(format!("Cannot make {}", path.display()), source)
}

impl Drop for Making {
    fn drop(&mut self) {
        // It has another name by now where all went well.
        let _ = fs::remove_dir_all(&self.partial);
    }
}
