//! The journal: every decision of the host manager with its inputs, the clause that decided,
//! the bounds that it met, and what came of it.
//!
//! `schema` has the tables, `write` puts rows in and takes old ones away, `read` finds them
//! again, and `types` are the values that go both ways.

mod inputs;
mod read;
mod schema;
mod types;
mod write;

pub use types::{
    Decided, Decision, DecisionId, Event, Fate, Found, GuestKey, GuestRow, Outcome, Policy, Pruned,
    Query, Range, Word,
};

use crate::error::cannot;
use crate::{Error, db};
use model::GuestIdentity;
use rusqlite::Connection;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// A journal, open.
pub struct Journal {
    connection: Connection,
    /// Guests that were written already, with the last time that was written for them.
    known: HashMap<GuestIdentity, (GuestKey, i64)>,
}

impl Journal {
    /// Opens a journal to write to it; makes it where it is not there. A file that an older
    /// pinhead wrote is brought up to date.
    pub fn open(path: &Path) -> Result<Journal, Error> {
        db::open(path, &schema::KIND).map(Journal::over)
    }

    /// Opens a journal to read it, also while a manager writes to it.
    pub fn read_only(path: &Path) -> Result<Journal, Error> {
        db::open_read_only(path, &schema::KIND).map(Journal::over)
    }

    /// A journal in memory, which goes with its owner.
    pub fn in_memory() -> Result<Journal, Error> {
        db::in_memory(&schema::KIND).map(Journal::over)
    }

    fn over(connection: Connection) -> Journal {
        Journal { connection, known: HashMap::new() }
    }

    /// Begins a batch: what follows is written together by `commit`. Another writer makes this
    /// fail within a fraction of a second, before anything is written.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(cannot("begin a batch"))
    }

    /// Writes the batch.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.connection.execute_batch("COMMIT").map_err(cannot("write a batch"))
    }

    /// Forgets the batch. Without a batch it does nothing.
    pub fn roll_back(&mut self) {
        // Guests of the batch are not in the file.
        self.known.clear();
        if !self.connection.is_autocommit() {
            // A disk that is full has ended the batch already.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("path", &self.connection.path()).finish_non_exhaustive()
    }
}
