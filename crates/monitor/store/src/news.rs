//! Reports about writing to files.

use crate::Error;
use std::path::PathBuf;

/// News of a flush. There is no news while the state is unchanged.
#[derive(Debug)]
pub enum News {
    /// The file cannot be written to. Further failures in a row are not reported.
    Failed(Error),
    /// A file of recordings was no longer a database. The file was set aside, and a new file was
    /// begun.
    SetAside {
        /// Original path.
        path: PathBuf,
        /// Path after the move.
        aside: PathBuf,
    },
    /// A file was locked by another process. A copy replaced the file. Only the copy's owner can
    /// read the copy.
    Held {
        /// Path of the file.
        path: PathBuf,
        /// A description of the process.
        by: String,
    },
    /// The file can be written to again.
    Recovered {
        /// Number of records lost before the recovery.
        lost: u64,
    },
}
