//! The state found at the start, in a file that outlives the daemon.
//!
//! A killed daemon cannot restore anything. Every daemon therefore saves a record before its first
//! change, and the next daemon restores the values in this record. The record is text:
//!
//! ```text
//! pinhead-undo 1                                  format and version
//! boot 0e0e9a3c-7f6b-4a58-9d5e-5d2f3a1b7c44       the boot it belongs to
//! cpus 0-1                                        the CPUs that were online
//! pool 4096                                       the pool in pages; - if there was none
//! end                                             nothing is missing
//! ```
//!
//! The record is written to a separate file, synced to disk and renamed, so that a crash leaves the
//! old record or the new one. A record is applied only if all of its lines are valid.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base::Pages;
use procfs::Root;
use procfs::parse::{cpulist, unsigned};

use crate::plug::cpus::Cpus;
use crate::plug::error::Error;
use crate::plug::pool::Pool;
use crate::plug::{CpuSet, fsio};

const HEAD: &str = "pinhead-undo 1";

/// A boot id is a UUID of 36 characters.
const MAX_BOOT_ID_BYTES: usize = 64;

/// The state to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoRecord {
    /// The boot of the changed kernel: see [`boot_id`].
    pub boot_id: String,
    /// The CPUs that were online.
    pub cpus: CpuSet,
    /// The pool's size. `None` if there was no pool.
    pub pool: Option<Pages>,
}

/// The error of an invalid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Line {line} {what}")]
pub struct BadRecord {
    /// The line, counted from 1.
    pub line: usize,
    /// The error in the line.
    pub what: &'static str,
}

/// Returns the id of the running kernel's boot.
pub fn boot_id(root: &Root) -> Result<String, Error> {
    let path = root.join("proc/sys/kernel/random/boot_id");
    let bytes = fsio::read(&path)?;
    let id = boot_id_in(bytes.trim_ascii());
    id.ok_or(Error::Malformed { path, what: "holds no boot id" })
}

fn boot_id_in(text: &[u8]) -> Option<String> {
    let fits = !text.is_empty() && text.len() <= MAX_BOOT_ID_BYTES;
    let clean = text.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    if fits && clean { String::from_utf8(text.to_vec()).ok() } else { None }
}

impl UndoRecord {
    /// Parses the text of a record.
    pub fn parse(text: &[u8]) -> Result<UndoRecord, BadRecord> {
        // A record that reaches the reader's limit may be truncated, and is refused as too long.
        if text.len() as u64 >= fsio::MAX_BYTES {
            return Err(BadRecord { line: 1, what: "begins a record that is too long" });
        }
        let mut lines = text.split(|b| *b == b'\n');
        let mut number = 0;
        let mut next = |key: &str, what| {
            number += 1;
            let bad = BadRecord { line: number, what };
            let rest = lines.next().and_then(|line| line.strip_prefix(key.as_bytes()));
            rest.map(|rest| (rest, bad)).ok_or(bad)
        };
        let (rest, bad) = next(HEAD, "does not begin an undo record of version 1")?;
        ensure(rest.is_empty(), bad)?;
        let (rest, bad) = next("boot ", "has no boot id")?;
        let boot_id = boot_id_in(rest).ok_or(bad)?;
        let (rest, bad) = next("cpus ", "has no list of CPUs")?;
        let cpus = cpulist::parse(rest).map_err(|_| bad)?;
        // The daemon never writes a record without CPUs.
        ensure(!cpus.is_empty(), bad)?;
        let (rest, bad) = next("pool ", "has no size of a pool")?;
        let pool = match (rest, unsigned(rest)) {
            (b"-", _) => None,
            (_, Some((pages, []))) if pages < u64::MAX => Some(Pages(pages)),
            _ => return Err(bad),
        };
        let (rest, bad) = next("end", "is not the record's end")?;
        ensure(rest.is_empty(), bad)?;
        let (rest, bad) = next("", "does not end with a newline, or is not the last line")?;
        ensure(rest.is_empty() && lines.next().is_none(), bad)?;
        let record = UndoRecord { boot_id, cpus, pool };
        // Only text that this code would have written is accepted. An equivalent text, such as
        // `1-1` for `1`, was written or changed by another program.
        let written = record.to_string();
        let mut pairs = text.split(|b| *b == b'\n').zip(written.split('\n'));
        match pairs.position(|(is, expect)| is != expect.as_bytes()) {
            Some(at) => {
                Err(BadRecord { line: at + 1, what: "is not written in the daemon's form" })
            }
            None => Ok(record),
        }
    }

    /// Returns the record at `path`, if there is one and it belongs to the running kernel. A
    /// damaged record, or a record of another boot, is an error. The caller reports the error, and
    /// then overwrites or removes the record.
    pub fn load(root: &Root, path: &Path) -> Result<Option<UndoRecord>, Error> {
        let Some(text) = fsio::read_if_there(path)? else { return Ok(None) };
        let record = UndoRecord::parse(&text).map_err(|bad| Error::BadRecord {
            path: path.into(),
            line: bad.line,
            what: bad.what,
        })?;
        if record.boot_id != boot_id(root)? {
            return Err(Error::ForeignRecord { path: path.into(), boot_id: record.boot_id });
        }
        Ok(Some(record))
    }

    /// Saves the record at `path`, completely or not at all.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let new = new_path(path);
        let saved = self.save_by_rename(&new, path);
        if saved.is_err() {
            // A partial file does no harm, so an error here is ignored.
            let _ = fs::remove_file(&new);
        }
        let value = String::from("the undo record");
        saved.map_err(|source| Error::Write { path: path.into(), value, source })
    }

    fn save_by_rename(&self, new: &Path, path: &Path) -> io::Result<()> {
        let mut file = File::create(new)?;
        file.write_all(self.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(new, path)?;
        // The new name is on disk only after the directory is synced.
        match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => File::open(dir)?.sync_all(),
            _ => Ok(()),
        }
    }

    /// Removes the record after everything was restored. A missing record is no error.
    pub fn remove(path: &Path) -> Result<(), Error> {
        match fs::remove_file(path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                let value = String::from("the removal of the undo record");
                Err(Error::Write { path: path.into(), value, source })
            }
            _ => Ok(()),
        }
    }

    /// Restores as much as possible of the recorded state, and returns the errors. Memory is
    /// restored first, because a guest that lacks memory may not be able to restore the rest.
    pub fn undo(&self, cpus: &Cpus, pool: Option<&mut dyn Pool>) -> Vec<Error> {
        let mut errors = Vec::new();
        if let (Some(size), Some(pool)) = (self.pool, pool) {
            errors.extend(pool.request(size).err());
        }
        errors.extend(cpus.restore(&self.cpus));
        errors
    }
}

impl fmt::Display for UndoRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HEAD}\nboot {}\ncpus {}\npool ", self.boot_id, self.cpus)?;
        match self.pool {
            Some(pages) => write!(f, "{}", pages.0)?,
            None => f.write_str("-")?,
        }
        f.write_str("\nend\n")
    }
}

fn ensure(holds: bool, bad: BadRecord) -> Result<(), BadRecord> {
    if holds { Ok(()) } else { Err(bad) }
}

fn new_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}
