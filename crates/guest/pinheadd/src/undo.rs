//! State to restore at the end, written to disk before the first change of each kind.

use crate::plug::{Error, UndoRecord};
use base::Pages;
use std::path::PathBuf;

/// Record of this daemon's changes, and its path.
#[derive(Debug)]
pub struct Undo {
    /// State found at the start. The pool's size is recorded only just before the rules first
    /// change it. Until then another manager may set the pool, and the size that it sets must stay.
    pub record: UndoRecord,
    path: PathBuf,
}

impl Undo {
    pub fn keep(record: UndoRecord, path: PathBuf) -> Result<Undo, Error> {
        record.save(&path)?;
        Ok(Undo { record, path })
    }

    /// Writes the size of the pool to disk, before the pool's first change.
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

    /// Assigns the record to another boot id, because this guest now has another identity.
    pub fn move_to(&mut self, boot_id: String) -> Result<(), Error> {
        self.record.boot_id = boot_id;
        self.record.save(&self.path)
    }

    /// Removes the record after everything was restored.
    pub fn forget(&self) -> Result<(), Error> {
        UndoRecord::remove(&self.path)
    }
}
