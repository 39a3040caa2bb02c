//! Errors of plugging and unplugging.

use std::io;
use std::path::PathBuf;

use base::Pages;

/// A failed read or action.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("Cannot write {value} to {path}")]
    Write { path: PathBuf, value: String, source: io::Error },
    #[error("{path} {what}")]
    Malformed { path: PathBuf, what: &'static str },
    /// The undo record is damaged, or written by another program.
    #[error("Line {line} of the undo record {path} {what}")]
    BadRecord { path: PathBuf, line: usize, what: &'static str },
    /// The undo record was written before this kernel was booted, so the recorded values are
    /// meaningless.
    #[error("The undo record {path} is of another boot ({boot_id})")]
    ForeignRecord { path: PathBuf, boot_id: String },
    /// The CPU stays online, because it is the last one.
    #[error("CPU {cpu} stays online: it is the only CPU online")]
    LastCpu { cpu: u32 },
    #[error("A pool of {pages} was refused: {}", .why.escape_debug())]
    Refused { pages: Pages, why: String },
}
