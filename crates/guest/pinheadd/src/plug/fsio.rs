//! Reads and writes of small files of /proc and /sys.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use procfs::{CpuList, parse};

use crate::plug::error::Error;

/// Maximum number of bytes read from a file. An attribute of sysfs has at most one page, and no
/// page size in use is larger. A list of CPUs, or a process's status, is far shorter.
pub(crate) const MAX_BYTES: u64 = 64 * 1024;

/// Reads the bytes of a file, up to [`MAX_BYTES`].
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let read = |path| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read(path).map_err(|source| Error::Read { path: path.into(), source })
}

/// Reads a file like [`read`], but returns `None` for a missing file.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn read_number(path: &Path) -> Result<u64, Error> {
    number(path, &read(path)?)
}

/// Parses `bytes`, the text of the file at `path`, as a number.
pub(crate) fn number(path: &Path, bytes: &[u8]) -> Result<u64, Error> {
    let text = bytes.trim_ascii();
    match parse::unsigned(text) {
        Some((number, [])) => Ok(number),
        _ => Err(Error::Malformed { path: path.into(), what: "holds no number" }),
    }
}

pub(crate) fn read_cpu_list(path: &Path) -> Result<CpuList, Error> {
    let list = parse::cpulist::parse(&read(path)?);
    list.map_err(|bad| Error::Malformed { path: path.into(), what: bad.what })
}

/// Writes one number and a newline to a file, which must exist.
pub(crate) fn write_number(path: &Path, number: u64) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        // The number is written with one call, because the kernel takes each call as a separate
        // value.
        file.write_all(format!("{number}\n").as_bytes())
    };
    write().map_err(|source| Error::Write { path: path.into(), value: number.to_string(), source })
}

/// Returns at most `most` entries of a directory, or no entries if it cannot be read.
pub(crate) fn entries(dir: &Path, most: usize) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).take(most).collect()
}
