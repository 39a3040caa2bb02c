//! Errors in starting or using a guest.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// An error in starting or using a guest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of an image, a file or a tool.
    #[error(transparent)]
    Image(#[from] crate::images::Error),
    #[error("Guest {guest:?}: {reason}")]
    Spec { guest: String, reason: String },
    /// A guest's state could not be saved, or another guest could not start from this state.
    #[error("Template of guest {guest}: {reason}")]
    Template { guest: String, reason: String },
    #[error("QEMU of guest {guest} ended ({status}): {}", .stderr.trim_end())]
    QemuExited { guest: String, status: ExitStatus, stderr: String },
    #[error("Guest {guest} is not up; the end of its console:\n{}", .console.trim_end())]
    NotUp { guest: String, console: String, source: Box<Error> },
    #[error("Connection {channel} failed")]
    Channel {
        /// Name of the channel: "qmp", "console", "ctl".
        channel: &'static str,
        source: io::Error,
    },
    #[error("Cannot listen on {path}")]
    Socket { path: PathBuf, source: io::Error },
    #[error("Too late: {waiting_for}")]
    Deadline { waiting_for: String },
    #[error("QEMU's monitor sent an invalid message")]
    Qmp(#[from] qmp::Error),
    #[error("QEMU refused {command}: {desc}")]
    QmpRefused { command: &'static str, desc: String },
    #[error("Guest command {command:?}: {reason}")]
    Ctl { command: String, reason: &'static str },
}
