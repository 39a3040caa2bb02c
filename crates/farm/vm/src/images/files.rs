//! Operations on the cache's files: atomic writes, locks, and removal.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::images::Error;
use crate::images::error::FileContext;
pub(crate) use crate::images::ours::create_dir;
use crate::images::ours::open_lock;

/// Removes a directory and its content, if it exists.
pub(crate) fn remove_dir(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.file("remove", path),
    }
}

/// Removes a file, if it exists.
pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.file("remove", path),
    }
}

/// Writes a file atomically, so that no process finds an incomplete file.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let part = path.with_added_extension("part");
    remove_file(&part)?;
    write_new(&part, bytes)?;
    fs::rename(&part, path).file("create", path)
}

/// Creates a new file. An existing file is not written to, and an existing link is not followed.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = File::create_new(path).file("create", path)?;
    file.write_all(bytes).file("write", path)
}

/// Moves a directory to a name. If another directory has this name, the two are exchanged, so that
/// the name exists at all times.
pub(crate) fn exchange(new: &Path, name: &Path) -> Result<(), Error> {
    if !name.exists() {
        return fs::rename(new, name).file("create", name);
    }
    match renameat_with(CWD, new, CWD, name, RenameFlags::EXCHANGE) {
        // Some file systems, such as NFS, and old kernels do not support the exchange.
        Err(Errno::INVAL | Errno::NOSYS) => exchange_by_steps(new, name),
        exchanged => exchanged.map_err(io::Error::from).file("replace", name),
    }
}

/// Exchanges the directories in steps. For a moment the name does not exist.
fn exchange_by_steps(new: &Path, name: &Path) -> Result<(), Error> {
    let old = name.with_added_extension("old");
    // Only a killed process leaves this directory.
    remove_dir(&old)?;
    fs::rename(name, &old).file("replace", name)?;
    fs::rename(new, name).file("create", name)?;
    fs::rename(&old, new).file("move", &old)
}

/// Locks a file until the returned file is dropped, and waits while another process holds the lock.
/// The kernel releases the lock of a process that ends.
pub fn lock_file(path: &Path) -> Result<File, Error> {
    let file = open_lock(path)?;
    file.lock().file("lock", path)?;
    Ok(file)
}

/// Returns a directory's entries, sorted by name.
pub(crate) fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).file("read", directory)?;
    let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.file("read", directory)?;
    paths.sort();
    Ok(paths)
}

/// Returns a directory's entries with the given one of their times, the oldest first.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_exchanged_also_where_the_file_system_cannot() {
        let root = std::env::temp_dir().join(format!("images-exchange-{}", std::process::id()));
        let (new, name) = (root.join("new"), root.join("name"));
        for by in [exchange, exchange_by_steps] {
            for path in [&new, &name, &root.join("name.old")] {
                create_dir(path).unwrap();
                fs::write(path.join("file"), path.as_os_str().as_encoded_bytes()).unwrap();
            }
            by(&new, &name).unwrap();
            let text = |path: &Path| fs::read_to_string(path.join("file")).unwrap();
            assert!(text(&name).ends_with("/new") && text(&new).ends_with("/name"));
            fs::remove_dir_all(&root).unwrap();
        }
    }
}
