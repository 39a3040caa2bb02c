//! Undoing what a record names: at the end, or at the next start after a kill.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;

use super::fault::{RECORD, TierContext, refused, sentence};
use super::machine::{Calls, Live, Machine, Places, names};
use super::record::{Record, load, lock_file};
use super::step::Done;
use super::undo;
use crate::Error;

/// What a dead process left, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The record.
    pub record: PathBuf,
    /// What could not be undone, in sentences. Then the record stays, and the next start tries
    /// again. It stays without a fault while another program drives KSM, having taken it over.
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
    let cannot = format!("cannot use {}", dir.display());
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    let found = made.and_then(|()| fs::symlink_metadata(dir)).tier(RECORD, &cannot)?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || found.mode() & 0o022 != 0 {
        return Err(refused(RECORD, format!("{} is not ours alone", dir.display())));
    }
    let lock = lock_file(&dir.join(".lock")).tier(RECORD, &cannot)?;
    lock.lock().tier(RECORD, cannot)?;
    Ok(lock)
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
        let record = Record::left(id, path.clone(), lock, steps);
        found.push(Left { record: path, faults: undo_all(record, machine) });
    }
    found
}

/// Undoes everything, newest first; gives what could not be undone, in sentences, and keeps a
/// record of that.
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
                faults.push(sentence(&error));
                kept.push(step);
            }
        }
    }
    kept.reverse();
    faults.extend(record.close(kept));
    faults
}
