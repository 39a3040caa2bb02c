//! What has to be put back: kept on disk before the first change of each kind.

use counters::Pages;
use plug::{Error, UndoRecord};
use std::path::PathBuf;

/// The record of this daemon, and where it is kept.
#[derive(Debug)]
pub struct Undo {
    /// What was found. The pool is in it only once it has been changed: who else
    /// manages it in the meantime must find it as they left it.
    pub record: UndoRecord,
    path: PathBuf,
}

impl Undo {
    /// Writes the record down.
    pub fn keep(record: UndoRecord, path: PathBuf) -> Result<Undo, Error> {
        record.save(&path)?;
        Ok(Undo { record, path })
    }

    /// Writes the size of the pool down, before it is changed for the first time.
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

    /// Makes it the record of another boot: this guest has become another one.
    pub fn move_to(&mut self, boot_id: String) -> Result<(), Error> {
        self.record.boot_id = boot_id;
        self.record.save(&self.path)
    }

    /// Removes the record: everything is as it was found.
    pub fn forget(&self) -> Result<(), Error> {
        UndoRecord::remove(&self.path)
    }
}
