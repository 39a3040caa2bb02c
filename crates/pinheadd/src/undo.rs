//! The state to restore: written to disk before the first change of each kind.

use counters::Pages;
use plug::{Error, UndoRecord};
use std::path::PathBuf;

/// The record of this daemon, and its path.
#[derive(Debug)]
pub struct Undo {
    /// The state found. The pool is recorded only once it has been changed: until then another
    /// manager must find it as that manager left it.
    pub record: UndoRecord,
    path: PathBuf,
}

impl Undo {
    /// Writes the record to disk.
    pub fn keep(record: UndoRecord, path: PathBuf) -> Result<Undo, Error> {
        record.save(&path)?;
        Ok(Undo { record, path })
    }

    /// Writes the size of the pool to disk, before it is changed for the first time.
    pub fn before_pool_changes(&mut self, current: Pages) -> Result<(), Error> {
        if self.record.pool.is_none() {
            self.record.pool = Some(current);
            if let Err(error) = self.record.save(&self.path) {
                self.record.pool = None;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Moves the record to another boot id, because this guest has become another one.
    pub fn move_to(&mut self, boot_id: String) -> Result<(), Error> {
        self.record.boot_id = boot_id;
        self.record.save(&self.path)
    }

    /// Removes the record: everything is restored.
    pub fn forget(&self) -> Result<(), Error> {
        UndoRecord::remove(&self.path)
    }
}
