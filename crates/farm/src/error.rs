//! What can go wrong with many guests, beyond what can with one.

use std::io;
use std::path::{Path, PathBuf};

/// The errors of a farm.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A guest, or a connection.
    #[error(transparent)]
    Guest(#[from] vm::Error),
    /// A tier of the guests' memory cannot be had, or cannot be put back.
    #[error("Memory tiers, {tier}: {what}")]
    Tier {
        /// Which one: "cgroup", "zram", "swap file", "KSM", or their "record".
        tier: &'static str,
        what: String,
        source: Option<io::Error>,
    },
    /// A farm that runs refused what it was asked, or is not what it should be.
    #[error("The farm at {socket} says: {reason}")]
    Service { socket: PathBuf, reason: String },
    /// A farm gave no answer.
    #[error("The farm at {socket} {reason}")]
    Silent { socket: PathBuf, reason: String },
    /// What a farm has answered is of another version of the protocol.
    #[error("The farm at {socket} runs another version of pinhead: {reason}")]
    Version { socket: PathBuf, reason: String },
}

impl Error {
    /// An answer to something else than was asked.
    pub fn other(socket: &Path) -> Error {
        let reason = "its answer is to something else".to_owned();
        Error::Service { socket: socket.to_path_buf(), reason }
    }
}
