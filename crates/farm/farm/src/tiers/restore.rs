//! Undoing of recorded changes: at the end, or at the next start after a kill.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;

use super::fault::{RECORD, TierContext, refused};
use super::machine::{Calls, Live, Machine, Places, names};
use super::record::{Record, load, lock_file};
use super::step::Done;
use super::undo;
use crate::Error;

/// Leftover record of a dead process, and the result of undoing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Path of the record.
    pub record: PathBuf,
    /// Failures as sentences. With a failure the record stays, and the next start tries again. The
    /// record also stays, without a failure, while another program drives KSM.
    pub faults: Vec<String>,
}

/// Undoes the changes of killed processes. Every command that starts or ends guests must call this
/// function. Without records the call only reads one directory.
pub fn restore_left() -> Result<Vec<Left>, Error> {
    restore_left_at(&Places::usual(), Box::new(Live))
}

/// Does the same as [`restore_left`], on a given machine.
pub fn restore_left_at(places: &Places, calls: Box<dyn Calls>) -> Result<Vec<Left>, Error> {
    if !places.records.exists() {
        return Ok(Vec::new());
    }
    let machine = Machine::new(places, calls);
    machine.check_root()?;
    let _alone = alone(places)?;
    Ok(restore(&machine, places))
}

/// Takes the lock under which one process at a time makes a record or undoes leftover records.
pub(super) fn alone(places: &Places) -> Result<File, Error> {
    let dir = &places.records;
    let cannot = format!("cannot use {}", dir.display());
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    let found = made.and_then(|()| fs::symlink_metadata(dir)).tier(RECORD, &cannot)?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || found.mode() & 0o022 != 0 {
        return Err(refused(RECORD, format!("other users can write to {}", dir.display())));
    }
    let lock = lock_file(&dir.join(".lock")).tier(RECORD, &cannot)?;
    lock.lock().tier(RECORD, cannot)?;
    Ok(lock)
}

/// Undoes all leftover records. The caller must hold the lock of [`alone`].
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
        let record = Record::left(id, path.clone(), lock, steps);
        found.push(Left { record: path, faults: undo_all(record, machine) });
    }
    found
}

/// Undoes all changes, newest first. Changes that cannot be undone stay in the record, and the
/// failures are returned as sentences.
pub(super) fn undo_all(mut record: Record, machine: &Machine) -> Vec<String> {
    let steps = std::mem::take(&mut record.steps);
    steps.iter().for_each(undo::prepare);
    let mut faults = Vec::new();
    let mut kept = Vec::new();
    for step in steps.into_iter().rev() {
        match undo::undo(&step, machine) {
            Ok(Done::Undone) => {}
            Ok(Done::Later) => kept.push(step),
            Err(error) => {
                faults.push(base::chain(&error));
                kept.push(step);
            }
        }
    }
    kept.reverse();
    faults.extend(record.close(kept));
    faults
}
