//! Records of the changes to undo, written before each change.
//!
//! ```text
//!   /run/pinhead/tiers/  .lock            held while a farm starts or leftovers are undone
//!                        PID-N.lock       held as long as the process PID lives
//!                        PID-N.json       changes to undo, oldest first
//! ```
//!
//! The kernel releases a lock with its process, no matter how the process ends.

use std::fs::{self, File};
use std::io;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::fault::{RECORD, TierContext, refused, unless_gone};
use super::machine::{Places, read};
use super::step::Undo;
use crate::Error;

/// Maximum number of changes in a record. A record never has more than a dozen changes.
const UNDO_MAX: usize = 64;

/// Number of records that this process has made. The number keeps the records' names unique.
static MADE: AtomicU32 = AtomicU32::new(0);

/// The record of a running process.
#[derive(Debug)]
pub(super) struct Record {
    id: String,
    path: PathBuf,
    _lock: File,
    /// Changes to undo, oldest first.
    pub(super) steps: Vec<Undo>,
}

#[derive(Serialize, Deserialize)]
struct Steps {
    steps: Vec<Undo>,
}

pub(super) fn lock_file(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).open(path)
}

pub(super) fn load(path: &Path) -> Result<Vec<Undo>, String> {
    let text = match read(path) {
        Ok(text) => text,
        // The process was killed before its first change.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    parse(&text).ok_or_else(|| {
        format!("{} is not a record of tiers: check its content, then remove it", path.display())
    })
}

/// Parses a record and checks that it is plausible.
fn parse(text: &str) -> Option<Vec<Undo>> {
    let Steps { steps } = serde_json::from_str(text).ok()?;
    (steps.len() <= UNDO_MAX && steps.iter().all(Undo::is_plausible)).then_some(steps)
}

fn written(steps: &[Undo]) -> String {
    format!("{:#}\n", json!({ "steps": steps }))
}

/// Parses the text of a record and formats the record again. Returns `None` for an invalid text.
/// The function is for tests and fuzzing of the format.
pub fn record_again(text: &str) -> Option<String> {
    parse(text).map(|steps| written(&steps))
}

impl Record {
    /// Creates an empty record with its lock. The caller must hold the lock of [`alone`].
    pub(super) fn create(places: &Places) -> Result<Record, Error> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", std::process::id());
        let path = places.records.join(format!("{id}.json"));
        if path.exists() {
            let what = format!(
                "the record {} still exists: the changes of an earlier process with the same \
                 process ID could not be undone",
                path.display()
            );
            return Err(refused(RECORD, what));
        }
        let lock_path = path.with_extension("lock");
        let locked = lock_file(&lock_path).and_then(|lock| {
            lock.try_lock()?;
            Ok(lock)
        });
        let lock = locked.tier(RECORD, format!("cannot lock {}", lock_path.display()))?;
        Ok(Record { id, path, _lock: lock, steps: Vec::new() })
    }

    /// Returns the name of the record, which is unique on this machine.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Records a change that is about to be made.
    pub(super) fn add(&mut self, step: Undo) -> Result<(), Error> {
        self.steps.push(step);
        self.save()
    }

    /// Updates the last recorded change.
    pub(super) fn replace_last(&mut self, step: Undo) -> Result<(), Error> {
        self.steps.pop();
        self.add(step)
    }

    /// Updates the newest recorded change of the same kind. Other changes may follow it in the
    /// record.
    pub(super) fn renew(&mut self, step: Undo) -> Result<(), Error> {
        let is_it = |old: &&mut Undo| discriminant(*old) == discriminant(&step);
        match self.steps.iter_mut().rfind(is_it) {
            Some(old) => *old = step,
            None => self.steps.push(step),
        }
        self.save()
    }

    fn save(&self) -> Result<(), Error> {
        let text = written(&self.steps);
        let part = self.path.with_extension("part");
        // The rename keeps the file complete even if the process is killed. The file need not
        // survive a reboot, because a reboot undoes the changes too.
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, &self.path))
            .tier(RECORD, format!("cannot write {}", self.path.display()))
    }

    /// Returns the record of a dead process, with its lock.
    pub(super) fn left(id: String, path: PathBuf, lock: File, steps: Vec<Undo>) -> Record {
        Record { id, path, _lock: lock, steps }
    }

    /// Saves the changes that could not be undone, or removes the record. Returns the failures as
    /// sentences.
    pub(super) fn close(mut self, kept: Vec<Undo>) -> Vec<String> {
        let mut faults = Vec::new();
        self.steps = kept;
        if self.steps.is_empty() {
            for end in ["part", "json", "lock"] {
                let path = self.path.with_extension(end);
                if let Err(error) = unless_gone(fs::remove_file(&path)) {
                    faults.push(format!("{} cannot be removed: {error}", path.display()));
                }
            }
        } else if let Err(error) = self.save() {
            faults.push(base::chain(&error));
        }
        faults
    }
}
