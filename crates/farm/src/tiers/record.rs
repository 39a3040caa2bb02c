//! What is to be undone, written down before it is done.
//!
//! ```text
//!   /run/pinhead/tiers/  .lock            held for a start, and while what was left is undone
//!                        PID-N.lock       held as long as its process lives
//!                        PID-N.json       what to undo, oldest first
//! ```
//!
//! The kernel lets go of a lock however its process ends.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::machine::{Calls, Live, Machine, Places, names, read};
use super::undo::{Done, Undo, sentence};
use super::{RECORD, failed, refused};
use crate::Error;

/// Changes in a record: there are never more than a dozen.
const UNDO_MAX: usize = 64;

/// Records that this process has made, so that each has a name of its own.
static MADE: AtomicU32 = AtomicU32::new(0);

/// The record of a process that lives.
#[derive(Debug)]
pub(super) struct Record {
    id: String,
    path: PathBuf,
    lock_path: PathBuf,
    _lock: File,
    steps: Vec<Undo>,
}

/// What a dead process left, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The record.
    pub record: PathBuf,
    /// What could not be undone, in sentences. Then the record stays, and the next start tries
    /// again. It stays without a fault while somebody else drives KSM, who took it over from us.
    pub faults: Vec<String>,
}

/// Undoes what processes left that were killed. To be called by every command that starts or ends
/// guests; without such records it reads one directory.
pub fn restore_left() -> Result<Vec<Left>, Error> {
    restore_left_at(&Places::usual(), Box::new(Live))
}

/// The same on a machine of the caller's.
pub fn restore_left_at(places: &Places, calls: Box<dyn Calls>) -> Result<Vec<Left>, Error> {
    if !places.records.exists() {
        return Ok(Vec::new());
    }
    let machine = Machine::new(places, calls);
    machine.check_root()?;
    let _alone = alone(places)?;
    Ok(restore(&machine, places))
}

/// One process at a time makes a record or looks for those that were left.
pub(super) fn alone(places: &Places) -> Result<File, Error> {
    let dir = &places.records;
    let error = |source| failed(RECORD, format!("cannot use {}", dir.display()), source);
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(error)?;
    let found = fs::symlink_metadata(dir).map_err(error)?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || found.mode() & 0o022 != 0 {
        return Err(refused(RECORD, format!("{} is not ours alone", dir.display())));
    }
    let lock = lock_file(&dir.join(".lock")).map_err(error)?;
    lock.lock().map_err(error)?;
    Ok(lock)
}

fn lock_file(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).open(path)
}

/// Undoes what was left. The caller is [`alone`].
pub(super) fn restore(machine: &Machine, places: &Places) -> Vec<Left> {
    let dir = &places.records;
    let ids = names(dir, "").into_iter();
    let ids = ids.filter_map(|name| Some(name.strip_suffix(".lock")?.to_owned()));
    let mut found = Vec::new();
    for id in ids.filter(|id| !id.is_empty()) {
        let lock_path = dir.join(format!("{id}.lock"));
        let Ok(lock) = lock_file(&lock_path) else { continue };
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            continue;
        }
        let path = dir.join(format!("{id}.json"));
        let steps = match load(&path) {
            Ok(steps) => steps,
            Err(fault) => {
                found.push(Left { record: path, faults: vec![fault] });
                continue;
            }
        };
        let record = Record { id, path: path.clone(), lock_path, _lock: lock, steps };
        found.push(Left { record: path, faults: record.undo(machine) });
    }
    found
}

fn load(path: &Path) -> Result<Vec<Undo>, String> {
    let text = match read(path) {
        Ok(text) => text,
        // It was killed before it changed anything.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    let wrong = || {
        format!("{} is no record of tiers: look at what it says, then remove it", path.display())
    };
    let value: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
    let steps = value.get("steps").and_then(Value::as_array).ok_or_else(wrong)?;
    if steps.len() > UNDO_MAX {
        return Err(wrong());
    }
    steps.iter().map(Undo::from_json).collect::<Option<_>>().ok_or_else(wrong)
}

impl Record {
    /// An empty record with its lock. The caller is [`alone`].
    pub(super) fn create(places: &Places) -> Result<Record, Error> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", std::process::id());
        let path = places.records.join(format!("{id}.json"));
        let lock_path = places.records.join(format!("{id}.lock"));
        if path.exists() {
            let what = format!(
                "{} is there still, from a process that had our number: what it says could not \
                 be undone",
                path.display()
            );
            return Err(refused(RECORD, what));
        }
        let error = |source| failed(RECORD, format!("cannot lock {}", lock_path.display()), source);
        let lock = lock_file(&lock_path).map_err(error)?;
        lock.try_lock().map_err(io::Error::from).map_err(error)?;
        Ok(Record { id, path, lock_path, _lock: lock, steps: Vec::new() })
    }

    /// A name that no other record of this machine has.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Writes down what is about to be done.
    pub(super) fn add(&mut self, step: Undo) -> Result<(), Error> {
        self.steps.push(step);
        self.save()
    }

    /// Writes down what has become of the last one.
    pub(super) fn replace_last(&mut self, step: Undo) -> Result<(), Error> {
        self.steps.pop();
        self.add(step)
    }

    fn save(&self) -> Result<(), Error> {
        let steps: Vec<Value> = self.steps.iter().map(Undo::to_json).collect();
        let text = format!("{:#}\n", json!({ "steps": steps }));
        let part = self.path.with_extension("part");
        // Whole or as before: it is read after a kill at any moment. It need not survive the
        // machine, which forgets the changes too.
        fs::write(&part, text).and_then(|()| fs::rename(&part, &self.path)).map_err(|source| {
            failed(RECORD, format!("cannot write {}", self.path.display()), source)
        })
    }

    /// Undoes everything, newest first; gives what could not be undone, in sentences, and keeps a
    /// record of that.
    pub(super) fn undo(mut self, machine: &Machine) -> Vec<String> {
        self.steps.iter().for_each(Undo::prepare);
        let mut faults = Vec::new();
        let mut kept = Vec::new();
        for step in std::mem::take(&mut self.steps).into_iter().rev() {
            match step.undo(machine) {
                Ok(Done::Undone) => {}
                Ok(Done::Later) => kept.push(step),
                Err(error) => {
                    faults.push(sentence(&error));
                    kept.push(step);
                }
            }
        }
        kept.reverse();
        self.steps = kept;
        if self.steps.is_empty() {
            for path in [self.path.with_extension("part"), self.path, self.lock_path] {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        faults.push(format!("{} cannot be removed: {error}", path.display()));
                    }
                    _ => {}
                }
            }
        } else if let Err(error) = self.save() {
            faults.push(sentence(&error));
        }
        faults
    }
}
