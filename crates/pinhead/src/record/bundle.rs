//! Stream format of an export: a tar that contains only the files of recordings and of a journal.

use crate::{Error, RecordingsError};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use store::Period;

/// First bytes of a file that gzip has compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Names of the parts of an exported directory.
pub(super) const RECORDINGS: &str = "recordings";
pub(super) const JOURNAL: &str = "journal.db";
/// Maximum size of a file, in bytes. All recordings together are at most a few times as large.
const FILE_MAX: u64 = 8 << 30;
/// Maximum number of files in a bundle: more than thirty years of monthly files.
const FILES_MAX: usize = 1_000;
/// Mode of a file, which is the mode of the manager's own files.
const MODE: u32 = 0o640;
/// Names of files, except for the files of days and months.
const OTHERS: [&str; 2] = ["raw.db", "passes.db"];

/// Returns the path for a file with this name. Returns `None` if recordings contain no such file.
fn place(path: &Path) -> Option<PathBuf> {
    let parts: Vec<&str> = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect::<Option<_>>()?;
    match parts[..] {
        [JOURNAL] => Some(JOURNAL.into()),
        [RECORDINGS, name] if OTHERS.contains(&name) || Period::of_file(name).is_some() => {
            Some(Path::new(RECORDINGS).join(name))
        }
        _ => None,
    }
}

/// Returns the files of an exported directory, as paths relative to the directory.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { path: dir.into(), source };
    let mut found = Vec::new();
    if dir.join(JOURNAL).exists() {
        found.push(PathBuf::from(JOURNAL));
    }
    for entry in fs::read_dir(dir.join(RECORDINGS)).map_err(failed)?.take(FILES_MAX) {
        let path = Path::new(RECORDINGS).join(entry.map_err(failed)?.file_name());
        found.extend(place(&path));
    }
    found.sort();
    Ok(found)
}

pub(super) fn write(dir: &Path, out: &mut dyn Write) -> Result<(), Error> {
    let failed = |source| Error::step("Cannot write the stream", source);
    let mut tar = tar::Builder::new(out);
    // The same files always give the same bytes, independent of user and time.
    tar.mode(tar::HeaderMode::Deterministic);
    for file in files(dir)? {
        tar.append_path_with_name(dir.join(&file), &file).map_err(failed)?;
    }
    tar.finish().map_err(failed)
}

/// Reads a tar into a directory that already contains a directory `recordings`.
pub fn read(input: &mut dyn Read, to: &Path) -> Result<(), Error> {
    let failed =
        |source| Error::step("This is not a tar of recordings, or it is incomplete", source);
    let mut head = Vec::new();
    input.take(GZIP.len() as u64).read_to_end(&mut head).map_err(failed)?;
    if head == GZIP {
        return Err(RecordingsError::Compressed.into());
    }
    let mut tar = tar::Archive::new(head.as_slice().chain(input));
    for (count, entry) in tar.entries().map_err(failed)?.enumerate() {
        let mut entry = entry.map_err(failed)?;
        let path = entry.path().map_err(failed)?.into_owned();
        if entry.header().entry_type().is_dir() {
            continue;
        }
        let refused = |why| {
            let name = base::plain(&path.to_string_lossy(), 100);
            Err(RecordingsError::File { name, why }.into())
        };
        let Some(place) = place(&path) else {
            return refused("recordings do not have such a file");
        };
        if !entry.header().entry_type().is_file() {
            return refused("it is not a file");
        }
        if entry.size() > FILE_MAX || count >= FILES_MAX {
            return refused("it exceeds the maximum size of a recording");
        }
        let target = to.join(place);
        let cannot = |source| Error::step(format!("Cannot write {}", target.display()), source);
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(MODE).open(&target);
        let file = file.as_mut().map_err(|error| cannot(std::io::Error::from(error.kind())))?;
        let mut buffer = [0; 64 * 1024];
        loop {
            let count = entry.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            file.write_all(&buffer[..count]).map_err(cannot)?;
        }
    }
    Ok(())
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    if !from.join(RECORDINGS).is_dir() {
        let path = from.into();
        return Err(RecordingsError::NotExported { path, missing: RECORDINGS }.into());
    }
    for file in files(from)? {
        let path = from.join(&file);
        // Opening a pipe would block until a process writes to it, so only regular files are
        // opened.
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(store::Error::NoFile { path }.into());
        }
        // A write-ahead log next to a file means that the file is in use, or was not closed. An
        // exported file has no such log.
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            return Err(RecordingsError::InUse { path }.into());
        }
        let copied = fs::copy(&path, to.join(&file));
        copied.map_err(|source| Error::Read { path, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_recordings_are_accepted() {
        for name in ["journal.db", "./journal.db", "recordings/raw.db", "recordings/2026-11-24.db"]
        {
            assert!(place(Path::new(name)).is_some(), "{name}");
        }
        for name in [
            "../journal.db",
            "/journal.db",
            "recordings/../journal.db",
            "recordings/raw.db/x",
            "recordings/2026-11-24.db-wal",
            "passwd",
            "",
        ] {
            assert!(place(Path::new(name)).is_none(), "{name}");
        }
    }
}
