//! Journal of the host manager's decisions, with their inputs, the deciding clause, the bounds
//! reached, and the outcomes.
//!
//! `schema` defines the tables, `write` adds rows and prunes old rows, `read` queries them, and
//! `types` has the values for both.

mod inputs;
mod read;
mod schema;
mod types;
mod write;

pub use types::{
    Decided, Decision, DecisionId, Event, Found, GuestKey, GuestRow, Outcome, Policy, Pruned,
    Query, Range, Word,
};

pub use model::Fate;

use crate::error::cannot;
use crate::{Error, db};
use model::GuestIdentity;
use rusqlite::Connection;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// An open journal.
pub struct Journal {
    connection: Connection,
    /// Guests already in the file, each with its key and with the `last_ms` written last.
    known: HashMap<GuestIdentity, (GuestKey, i64)>,
}

impl Journal {
    /// Opens a journal for writing, and creates it if it is missing. A file of an older version is
    /// migrated.
    pub fn open(path: &Path) -> Result<Journal, Error> {
        db::open(path, &schema::KIND).map(Journal::over)
    }

    /// Opens a journal for reading, even while a manager writes to it.
    pub fn read_only(path: &Path) -> Result<Journal, Error> {
        db::open_read_only(path, &schema::KIND).map(Journal::over)
    }

    /// Opens a journal in memory.
    pub fn in_memory() -> Result<Journal, Error> {
        db::in_memory(&schema::KIND).map(Journal::over)
    }

    fn over(connection: Connection) -> Journal {
        Journal { connection, known: HashMap::new() }
    }

    /// Begins a batch, which `commit` writes as a whole. If another writer has locked the file, the
    /// call soon fails, before anything is written.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(cannot("begin a batch"))
    }

    /// Commits the batch.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.connection.execute_batch("COMMIT").map_err(cannot("write a batch"))
    }

    /// Discards the batch. Without a batch it does nothing.
    pub fn roll_back(&mut self) {
        // Guests that the discarded batch added are not in the file.
        self.known.clear();
        if !self.connection.is_autocommit() {
            // If the disk is full, SQLite has already ended the batch.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("path", &self.connection.path()).finish_non_exhaustive()
    }
}
