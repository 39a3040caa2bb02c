//! Errors of recordings: shown, exported, imported.

use std::path::PathBuf;

/// A request for recordings that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum RecordingsError {
    #[error("There are no recordings yet, so no file was written")]
    Empty,
    #[error("Nothing was recorded in this time, so no file was written")]
    EmptyTime,
    #[error("Nothing is recorded in it, so nothing was imported")]
    EmptyImport,
    #[error("{path} is there already: name a new directory")]
    Exists { path: PathBuf },
    #[error("{path} is no name for a new directory")]
    NoName { path: PathBuf },
    /// A file of an export that recordings cannot have.
    #[error("{name} is refused: {why}")]
    File { name: String, why: &'static str },
    #[error("{path} is no directory that was exported: there is no {missing} in it")]
    NotExported { path: PathBuf, missing: &'static str },
    #[error("{path} is being written to: take it with `pinhead record export --dir`")]
    InUse { path: PathBuf },
    #[error(
        "There is no journal at {path}: `pinhead host` writes it; if yours is elsewhere, name it \
         with --journal"
    )]
    NoJournal { path: PathBuf },
    #[error("There is no table {name}; there are {}", .known.join(", "))]
    NoTable { name: String, known: Vec<String> },
    #[error("{name} has become {first} and {second}: name one of them for this format")]
    TwoReports { name: String, first: &'static str, second: &'static str },
    #[error("Name a change: --host, --grow, --more with --like, --policy, or --fit")]
    NoChange,
}
