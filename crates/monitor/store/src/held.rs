//! Copies that replace a file while another process keeps the file locked.
//!
//! Readers are members of the manager's group. Although they may only read a file, they can lock
//! the file through SQLite. A lock belongs to the file and not to its name, so a copy under the
//! same name is not locked. The group cannot read the copy, so nobody can lock the copy in this
//! way.
//!
//! ```text
//!   file, log ──copy──► file.copying, and its log ──take over, check, rename──► file
//! ```
//!
//! A thread makes the copy, because a large file takes seconds and the manager must not wait.
//! Meanwhile records wait in memory.

use crate::Error;
use crate::backoff::Backoff;
use crate::db::{self, COPY, beside};
use crate::news::News;
use base::plain;
use rusqlite::ErrorCode;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// Length in bytes from which a log counts as blocked by a reader. A log that is not blocked is
/// checkpointed at an eighth of this length.
const LOG_HELD: u64 = 128 << 20;
/// Free bytes of the file system that a copy must leave.
const ROOM_LEFT: u64 = 256 << 20;
/// Turns of one second between two attempts at a copy.
const COPY_PAUSE: u32 = 600;
/// Maximum number of bytes read from the kernel's list of locks, enough for some 20,000 locks.
const LOCKS_MAX: u64 = 1 << 20;
/// Maximum length of a program's name. The kernel stores 15 bytes.
const PROGRAM_MAX: usize = 16;
/// Mode of the copy: accessible for its owner only.
const MODE: u32 = 0o600;

/// Failures of one writer, and the copy of a locked file.
#[derive(Debug, Default)]
pub struct Failures {
    backoff: Backoff,
    copying: Option<JoinHandle<Result<News, Error>>>,
    /// Turns until another copy may be made.
    pause: u32,
}

impl Failures {
    /// Starts a turn. Returns true if the turn must be skipped, and the news of a copy that has
    /// finished.
    pub fn turn(&mut self) -> (bool, Option<News>) {
        self.pause = self.pause.saturating_sub(1);
        if let Some(copying) = self.copying.take_if(|copying| copying.is_finished()) {
            return (false, self.end_of(copying));
        }
        (self.copying.is_some() || self.backoff.waits(), None)
    }

    /// Returns true while a copy is in progress.
    pub fn is_copying(&self) -> bool {
        self.copying.as_ref().is_some_and(|copying| !copying.is_finished())
    }

    /// Waits for a copy in progress, and returns the copy's news. The copy replaces the file, so it
    /// would discard a last write made before the copy ends. The next turn is not skipped.
    pub fn finish(&mut self) -> Option<News> {
        self.backoff.try_soon();
        let copying = self.copying.take()?;
        self.end_of(copying)
    }

    fn end_of(&mut self, copying: JoinHandle<Result<News, Error>>) -> Option<News> {
        let news = match copying.join().ok()? {
            Ok(news) => news,
            Err(error) => News::Failed(error),
        };
        self.pause = if matches!(news, News::Held { .. }) { 0 } else { COPY_PAUSE };
        self.backoff.try_soon();
        Some(news)
    }

    /// Counts a success. Returns true if the attempt before failed.
    pub fn worked(&mut self) -> bool {
        self.backoff.worked()
    }

    /// Counts a failure to write to a file, which this process must have closed. Starts a copy if
    /// the file is locked. Returns the failure's news if this failure is the first in a row.
    pub fn failed(&mut self, path: &Path, error: Error) -> Option<News> {
        let is_news = self.backoff.failed();
        if self.backoff.is_lasting() {
            self.copy_if_locked(path, &error);
        }
        is_news.then_some(News::Failed(error))
    }

    /// Starts a copy if the error comes from another process's lock.
    pub fn copy_if_locked(&mut self, path: &Path, error: &Error) {
        let (Error::Open { source, .. } | Error::Statement { source, .. }) = error else { return };
        let code = source.sqlite_error_code();
        if matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) {
            self.copy(path);
        }
    }

    /// Returns true if a reader blocks the checkpoint of a file's log, and a copy may be made.
    pub fn is_log_held(&self, path: &Path) -> bool {
        let may_copy = self.pause == 0 && self.copying.is_none();
        may_copy && real(path).is_ok_and(|path| size(&beside(&path, "-wal")) > LOG_HELD)
    }

    /// Starts to copy a file that no connection of this process has open.
    pub fn copy(&mut self, path: &Path) {
        if self.pause == 0 && self.copying.is_none() {
            let path = path.to_owned();
            self.copying = std::thread::Builder::new()
                .name("copy".into())
                .spawn(move || replace(&path))
                // If no thread can be started, the file stays unchanged.
                .ok();
        }
    }
}

/// Resolves symlinks, because SQLite keeps its log next to the real file.
fn real(path: &Path) -> Result<PathBuf, Error> {
    fs::canonicalize(path).map_err(|source| Error::File { path: path.into(), source })
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// Replaces a file by a copy.
fn replace(path: &Path) -> Result<News, Error> {
    let path = &real(path)?;
    let by = holder(path);
    // A killed process may have left an unfinished copy. SQLite would take the log of the
    // unfinished copy for the log of the new copy.
    db::clean(path);
    let copied = copy(path);
    if copied.is_err() {
        db::clean(path);
    }
    copied.map(|()| News::Held { path: path.clone(), by })
}

fn copy(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.into(), source };
    let wanted = size(path).saturating_add(size(&beside(path, "-wal")));
    if free(path).map_err(failed)? < wanted.saturating_add(ROOM_LEFT) {
        let text = "it is locked, and its disk has no room for a copy: free space on the disk";
        return Err(failed(io::Error::new(ErrorKind::StorageFull, text)));
    }
    let copy = beside(path, COPY);
    for ending in ["", "-wal"] {
        copy_file(&beside(path, ending), &beside(&copy, ending)).map_err(failed)?;
    }
    db::take_log_over(&copy)?;
    fs::rename(&copy, path).map_err(failed)?;
    // The copy already contains every page of the old file's log.
    for ending in ["-wal", "-shm"] {
        db::remove(&beside(path, ending)).map_err(failed)?;
    }
    Ok(())
}

/// Returns the bytes of a file system that are free for this user.
fn free(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Copies a file, if it exists.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
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

/// Returns a description of the first other process with a lock on a file or on its log's index.
/// The kernel may list a lock without its process.
fn holder(path: &Path) -> String {
    let files = ["", "-shm"].map(|ending| fs::metadata(beside(path, ending)).ok());
    let files: Vec<String> = files.iter().flatten().map(number).collect();
    let mut locks = String::new();
    let read =
        File::open("/proc/locks").map(|file| file.take(LOCKS_MAX).read_to_string(&mut locks));
    let pid = read.ok().and_then(|_| locking(&locks, &files, std::process::id()));
    let Some(pid) = pid else { return "another process".into() };
    let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let program = plain(program.trim_end(), PROGRAM_MAX);
    match fs::metadata(format!("/proc/{pid}")) {
        Ok(process) => format!("process {pid} ({program}) of user {}", process.uid()),
        Err(_) => format!("process {pid}"),
    }
}

/// Returns a file's device and inode in the format of the kernel's list of locks: `fe:00:5678`.
fn number(file: &Metadata) -> String {
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    format!("{major:02x}:{minor:02x}:{}", file.ino())
}

/// Returns the process with the first lock on one of these files, other than `own`. A line of the
/// kernel's list is `1: POSIX ADVISORY READ 1234 fe:00:5678 120 120`.
fn locking(locks: &str, files: &[String], own: u32) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_posix = words.next()? == "POSIX";
        let pid = words.nth(2)?.parse().ok()?;
        let file = words.next()?;
        (is_posix && pid != own && files.iter().any(|held| held == file)).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_another_process_is_found_with_its_process() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:55 120 120\n\
                     2: OFDLCK ADVISORY  READ -1 fe:00:55 0 EOF\n\
                     3: POSIX  ADVISORY  READ 8 fe:01:55 0 EOF\n\
                     3: -> POSIX  ADVISORY  READ 10 fe:00:55 120 120\n\
                     4: FLOCK  ADVISORY  READ 11 fe:00:55 0 EOF\n\
                     5: POSIX  ADVISORY  READ 9 fe:00:55 120 120\n6: cut";
        let files = ["fe:00:55".to_owned()];
        assert_eq!(locking(locks, &files, 7), Some(9));
        assert_eq!(locking(locks, &files, 1), Some(7));
        assert_eq!(locking(locks, &["fe:00:57".to_owned()], 1), None);
    }
}
