//! Files of the cache: made whole, locked, and removed when there are too many.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::Error;
use crate::error::FileContext;

/// Makes a directory and those above it.
pub fn create_dir(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).file("create", path)
}

/// Removes a directory with all that is in it, if it is there.
pub(crate) fn remove_dir(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.file("remove", path),
    }
}

/// Makes a file that is there as a whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let part = path.with_added_extension("part");
    fs::write(&part, bytes).file("write", &part)?;
    fs::rename(&part, path).file("create", path)
}

/// Waits until no other process holds this lock, and keeps others out until the returned file is
/// dropped. The kernel lets go of the lock when the process ends, however it ends.
pub fn lock_file(path: &Path) -> Result<File, Error> {
    let file = File::options().create(true).append(true).open(path).file("open", path)?;
    file.lock().file("lock", path)?;
    Ok(file)
}

/// What is in a directory, by name.
pub(crate) fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).file("read", directory)?;
    let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.file("read", directory)?;
    paths.sort();
    Ok(paths)
}

/// What is in a directory, the oldest first by this time of each.
pub fn by_age(
    directory: &Path,
    time: fn(&Metadata) -> io::Result<SystemTime>,
) -> Result<Vec<(SystemTime, PathBuf)>, Error> {
    let mut found = Vec::new();
    for path in entries(directory)? {
        let time = fs::symlink_metadata(&path).and_then(|data| time(&data));
        found.push((time.file("read", &path)?, path));
    }
    found.sort();
    Ok(found)
}
