//! Errors of a farm of guests.

use std::io;
use std::path::{Path, PathBuf};

/// The errors of a farm.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of a guest, or of a connection.
    #[error(transparent)]
    Guest(#[from] vm::Error),
    /// A memory tier cannot be made, or cannot be undone.
    #[error("Memory tiers, {tier}: {what}")]
    Tier {
        /// Name of the tier: "cgroup", "zram", "swap file", "KSM", or "record" for the record of
        /// all tiers.
        tier: &'static str,
        what: String,
        source: Option<io::Error>,
    },
    /// A running farm refused a request, or its response belongs to another request.
    #[error("The farm at {socket} reports: {reason}")]
    Service { socket: PathBuf, reason: String },
    /// A farm did not respond.
    #[error("The farm at {socket} {reason}")]
    Silent { socket: PathBuf, reason: String },
    /// The directories of running farms cannot be read.
    #[error("The running farms cannot be listed")]
    Unseen(#[source] io::Error),
    /// A farm's response is of another version of the protocol.
    #[error("The farm at {socket} runs another version of pinhead: {reason}")]
    Version { socket: PathBuf, reason: String },
}

impl Error {
    /// Returns the error for a response that does not match its request.
    pub fn other(socket: &Path) -> Error {
        let reason = "the response belongs to another request".to_owned();
        Error::Service { socket: socket.to_path_buf(), reason }
    }
}
