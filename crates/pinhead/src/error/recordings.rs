//! Errors in showing, exporting and importing recordings.

use std::path::PathBuf;

/// A request for recordings that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum RecordingsError {
    #[error("There are no recordings yet, so no file was written")]
    Empty,
    #[error("Nothing was recorded in this time, so no file was written")]
    EmptyTime,
    #[error("The recording is empty, so nothing was imported")]
    EmptyImport,
    #[error("This tar is compressed: pass it through `gunzip` first")]
    Compressed,
    #[error("{path} exists already: choose a new directory")]
    Exists { path: PathBuf },
    #[error("{path} cannot be the name of a new directory")]
    NoName { path: PathBuf },
    /// A file that a stream of recordings must not contain.
    #[error("{name} is refused: {why}")]
    File { name: String, why: &'static str },
    #[error("{path} is not an exported directory: it has no {missing}")]
    NotExported { path: PathBuf, missing: &'static str },
    #[error("{path} is in use by a manager: export it with `pinhead record export --dir`")]
    InUse { path: PathBuf },
    #[error(
        "There is no journal at {path}: `pinhead host` writes the journal; use --journal if it is \
         elsewhere"
    )]
    NoJournal { path: PathBuf },
    #[error("There is no table {name}; the tables are {}", .known.join(", "))]
    NoTable { name: String, known: Vec<String> },
    #[error("Report {name} is now split in two: choose {first} or {second} for this format")]
    TwoReports { name: String, first: &'static str, second: &'static str },
    #[error("No change given: use --host, --grow, --more with --like, --policy, or --fit")]
    NoChange,
}
