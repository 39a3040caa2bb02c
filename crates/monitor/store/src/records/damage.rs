//! Handling of a damaged file. The file is moved aside unchanged, and a new file replaces it.
//!
//! Causes are a power cut on a disk that ignores flushes, a repaired file system, or a truncated
//! copy. An operator may still use the damaged file, but recording cannot continue in this file. A
//! database of another program is never moved.

use crate::Error;
use crate::db::beside;
use rusqlite::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::calendar::Period;

/// Infix of a set-aside file's name, before the time.
const MARK: &str = ".damaged-";
/// Maximum number of set-aside files per kind. Without a maximum, a faulty disk would fill up.
const KEPT: usize = 3;
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Suffixes of files next to an open database.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// Returns true if the error means that the file is no longer a pinhead database.
pub fn is_damaged(path: &Path, error: &Error) -> bool {
    let source = match error {
        Error::Foreign { .. } => return !begins_as_database(path).unwrap_or(true),
        // Readers refuse an altered file until its writer has replaced the file.
        Error::Altered { .. } => return true,
        Error::Open { source, .. } | Error::Statement { source, .. } => source,
        _ => return false,
    };
    let code = source.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn begins_as_database(path: &Path) -> io::Result<bool> {
    let mut begin = Vec::new();
    fs::File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(begin == MAGIC)
}

/// Moves a file aside with its companions, and removes the oldest set-aside files. No connection of
/// this process may have the file open. Returns the new path.
pub fn set_aside(path: &Path, now_ms: i64) -> Result<PathBuf, Error> {
    let failed = |source| Error::File { path: path.into(), source };
    let aside = beside(path, &format!("{MARK}{}", stamp(now_ms)));
    fs::rename(path, &aside).map_err(failed)?;
    for ending in BESIDE {
        match fs::rename(beside(path, ending), beside(&aside, ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    if let Some(dir) = path.parent() {
        forget(dir);
    }
    Ok(aside)
}

/// Formats a time for a file name, in a sortable form: `2026-11-21T18-02-03.250`.
fn stamp(at_ms: i64) -> String {
    let day = Period::day_of(at_ms);
    let ms = at_ms - day.begin_ms();
    let (second, ms) = (ms / 1_000, ms % 1_000);
    format!("{day}T{:02}-{:02}-{:02}.{ms:03}", second / 3_600, second / 60 % 60, second % 60)
}

/// Removes the oldest set-aside files of each kind separately, because the same cause often damages
/// every file. A failed removal does not affect the recorder.
fn forget(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut kinds: BTreeMap<String, BTreeSet<(String, PathBuf)>> = BTreeMap::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Some((of, stamp)) = name.split_once(MARK) else { continue };
        if BESIDE.iter().all(|ending| !stamp.ends_with(ending)) {
            // Files of days differ only in their digits, and so do files of months.
            let kind = of.replace(|c: char| c.is_ascii_digit(), "");
            kinds.entry(kind).or_default().insert((stamp.to_owned(), entry.path()));
        }
    }
    let old = kinds.values().flat_map(|found| found.iter().rev().skip(KEPT));
    for (_, path) in old {
        let _ = fs::remove_file(path);
        for ending in BESIDE {
            let _ = fs::remove_file(beside(path, ending));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_set_aside_files_sort_by_time() {
        assert_eq!(stamp(1_795_284_119_241), "2026-11-21T18-01-59.241");
        assert!(stamp(1_795_284_119_241) < stamp(1_795_284_120_000));
    }
}
