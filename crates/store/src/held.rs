//! A file that somebody else's lock keeps from being written to: a copy takes its place.
//!
//! Readers are members of the manager's group, and SQLite's locks can be had on a file that can
//! only be read. A lock is on the file and not on its name: a copy under that name is free of it.
//! Its group may not open the copy, so that one lock is all that a reader ever has.
//!
//! ```text
//!   file, log ──copy──► file.new, file.new-wal ──take over──► file.new ──rename──► file
//! ```

use crate::Error;
use crate::backoff::Backoff;
use crate::db::{self, beside};
use crate::writer::News;
use base::plain;
use rusqlite::ErrorCode;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

/// A log as long as this is held: it is taken over at an eighth of it. In bytes.
const LOG_HELD: u64 = 128 << 20;
/// Bytes of the kernel's list of locks that are read: some 20,000 locks.
const LOCKS_MAX: u64 = 1 << 20;
/// Letters of a program's name: the kernel keeps 15.
const PROGRAM_MAX: usize = 16;
/// The copy is for its owner alone.
const MODE: u32 = 0o600;

/// Counts a failure to write to a file, and returns its news, if it is any. A file that is held is
/// replaced: the next try is near.
pub fn failed(path: &Path, error: Error, backoff: &mut Backoff) -> Option<News> {
    let is_news = backoff.failed();
    let error = match is_held(&error, backoff).then(|| replace(path)) {
        None => error,
        Some(Ok(news)) => {
            backoff.try_soon();
            return Some(news);
        }
        Some(Err(error)) => error,
    };
    is_news.then_some(News::Failed(error))
}

/// Tells if an error comes of another process's lock, and not of a moment's.
fn is_held(error: &Error, backoff: &Backoff) -> bool {
    let (Error::Open { source, .. } | Error::Statement { source, .. }) = error else {
        return false;
    };
    let code = source.sqlite_error_code();
    let is_locked = matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked));
    is_locked && backoff.is_lasting()
}

/// Tells if a reader that never ends keeps the log from being taken over into its file.
pub fn is_log_held(path: &Path) -> bool {
    fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > LOG_HELD)
}

/// Puts a copy in the place of a file that no connection of this process has open.
pub fn replace(path: &Path) -> Result<News, Error> {
    let by = holder(path);
    let copy = beside(path, ".new");
    let failed = |source| Error::File { path: copy.clone(), source };
    for (from, to) in [("", ""), ("-wal", "-wal")] {
        copy_file(&beside(path, from), &beside(&copy, to)).map_err(failed)?;
    }
    db::take_log_over(&copy)?;
    fs::rename(&copy, path).map_err(failed)?;
    // The log of the old file has no page that the copy lacks.
    for ending in ["-wal", "-shm"] {
        remove(&beside(path, ending)).map_err(failed)?;
    }
    Ok(News::Held { path: path.into(), by })
}

/// Copies a file; one that is not there is not there afterwards either.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    remove(to)?;
    let mut from = match File::open(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let group = from.metadata()?.gid();
    let mut to = OpenOptions::new().write(true).create_new(true).mode(MODE).open(to)?;
    io::copy(&mut from, &mut to)?;
    fchown(&to, None, Some(group))?;
    to.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The first other process with a lock on a file or on the index of its log, in words.
fn holder(path: &Path) -> String {
    let files = ["", "-shm"].map(|ending| fs::metadata(beside(path, ending)).ok());
    let inodes: Vec<u64> = files.iter().flatten().map(MetadataExt::ino).collect();
    let mut locks = String::new();
    let read =
        File::open("/proc/locks").map(|file| file.take(LOCKS_MAX).read_to_string(&mut locks));
    let pid = read.ok().and_then(|_| locking(&locks, &inodes, std::process::id()));
    let Some(pid) = pid else { return "another process".into() };
    let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let program = plain(program.trim_end(), PROGRAM_MAX);
    match fs::metadata(format!("/proc/{pid}")) {
        Ok(process) => format!("process {pid} ({program}) of user {}", process.uid()),
        Err(_) => format!("process {pid}"),
    }
}

/// Process of the first lock on one of these inodes that is not `own`'s. A line of the kernel's
/// list is `1: POSIX ADVISORY READ 1234 fe:00:5678 120 120`.
fn locking(locks: &str, inodes: &[u64], own: u32) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(4);
        let pid = words.next()?.parse().ok()?;
        let inode = words.next()?.rsplit(':').next()?.parse().ok()?;
        (pid != own && inodes.contains(&inode)).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_has_its_process_when_it_is_anothers() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:55 120 120\n\
                     2: OFDLCK ADVISORY  READ -1 fe:00:55 0 EOF\n\
                     3: POSIX  ADVISORY  READ 8 fe:00:56 0 EOF\n\
                     3: -> POSIX  ADVISORY  READ 10 fe:00:55 120 120\n\
                     4: POSIX  ADVISORY  READ 9 fe:00:55 120 120\n5: cut";
        assert_eq!(locking(locks, &[55], 7), Some(9));
        assert_eq!(locking(locks, &[55], 1), Some(7));
        assert_eq!(locking(locks, &[57], 1), None);
    }
}
