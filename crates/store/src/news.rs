//! The news of writing to files.

use crate::Error;
use std::path::PathBuf;

/// The news of a flush: none while all goes as before.
#[derive(Debug)]
pub enum News {
    /// The journal cannot be written to; from now on that is not reported again.
    Failed(Error),
    /// A file of recordings was no database any more, and is set aside; a new one was begun.
    SetAside {
        /// The file.
        path: PathBuf,
        /// What it is called now.
        aside: PathBuf,
    },
    /// A file was held by another process. A copy, which is for its owner alone, took its place.
    Held {
        /// The file.
        path: PathBuf,
        /// A description of the process.
        by: String,
    },
    /// It can be written to again.
    Recovered {
        /// Records that were lost meanwhile.
        lost: u64,
    },
}
