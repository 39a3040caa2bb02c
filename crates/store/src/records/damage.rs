//! A file that cannot be written to because of what is in it: it is set aside, as it is, and a
//! new one is begun in its place.
//!
//! A power cut on a disk that lies, a file system that was repaired, a copy that was cut: what is
//! left may be of use to a person, and stands in the way of what is recorded now. A database of
//! something else is nobody's to move.

use crate::Error;
use crate::db::beside;
use rusqlite::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::calendar::Period;

/// What the name of a file that was set aside has, before the time.
const MARK: &str = ".damaged-";
/// So many of a kind are kept: a disk that spoils each file would be full of them.
const KEPT: usize = 3;
/// What a database begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// What lies beside a database while it is in use.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// True if an error, met with this file, says that the file is no database of ours any more.
pub fn is_damaged(path: &Path, error: &Error) -> bool {
    let source = match error {
        Error::Foreign { .. } => return !begins_as_database(path).unwrap_or(true),
        // Readers refuse it for as long as it is there.
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

/// Sets a file aside, with what lies beside it, and takes away the oldest ones that were. Nobody
/// of us has it open. Gives its new name.
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

/// A time that can stand in a name, and sorts as it is: `2026-11-21T18-02-03.250`.
fn stamp(at_ms: i64) -> String {
    let day = Period::day_of(at_ms);
    let ms = at_ms - day.begin_ms();
    let (second, ms) = (ms / 1_000, ms % 1_000);
    format!("{day}T{:02}-{:02}-{:02}.{ms:03}", second / 3_600, second / 60 % 60, second % 60)
}

/// Takes away the oldest of those that were set aside: of each kind of file for itself, since what
/// spoils one often spoils all. What cannot be taken away is no trouble of the recorder's.
fn forget(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut kinds: BTreeMap<String, BTreeSet<(String, PathBuf)>> = BTreeMap::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Some((of, stamp)) = name.split_once(MARK) else { continue };
        if BESIDE.iter().all(|ending| !stamp.ends_with(ending)) {
            // Files of days differ in their digits, and so do those of months.
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
    fn a_stamp_sorts_as_its_time() {
        assert_eq!(stamp(1_795_284_119_241), "2026-11-21T18-01-59.241");
        assert!(stamp(1_795_284_119_241) < stamp(1_795_284_120_000));
    }
}
