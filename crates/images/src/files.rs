//! Files of the cache: made whole, locked, and removed when there are too many.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::Error;
use crate::error::FileContext;
pub(crate) use crate::ours::create_dir;
use crate::ours::open_lock;

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
    match fs::remove_file(&part) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => other.file("remove", &part)?,
    }
    write_new(&part, bytes)?;
    fs::rename(&part, path).file("create", path)
}

/// Makes a file that is not there yet. What somebody may have put there is neither followed nor
/// written to.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = File::create_new(path).file("create", path)?;
    file.write_all(bytes).file("write", path)
}

/// Gives a directory its name. One that had the name before gets that of this one, so that there
/// is one of them at any time.
pub(crate) fn exchange(new: &Path, name: &Path) -> Result<(), Error> {
    if !name.exists() {
        return fs::rename(new, name).file("create", name);
    }
    let exchanged = renameat_with(CWD, new, CWD, name, RenameFlags::EXCHANGE);
    exchanged.map_err(io::Error::from).file("replace", name)
}

/// Waits until no other process holds this lock, and keeps others out until the returned file is
/// dropped. The kernel lets go of the lock when the process ends, however it ends.
pub fn lock_file(path: &Path) -> Result<File, Error> {
    let file = open_lock(path)?;
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
