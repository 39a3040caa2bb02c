//! Errors of the control socket, at either end.

use std::io;
use std::path::{Path, PathBuf};

use super::Failure;

/// The socket cannot be opened, or there was no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Another `pinhead host`{}", who(*.pid, .path))]
    Taken { pid: Option<u32>, path: PathBuf },
    #[error("{path} exists and is not a socket: remove it, or set another path in [control]")]
    NotASocket { path: PathBuf },
    #[error(
        "There is no group {}: create the group with groupadd, or change `group` in [control]",
        .group.escape_debug()
    )]
    NoSuchGroup { group: String },
    #[error("Cannot {step} {path}")]
    Step {
        /// Action that failed, such as "make the directory".
        step: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("No manager runs here (nothing listens at {path}): start it with `pinhead host`")]
    NoManager { path: PathBuf },
    #[error(
        "No permission to use the manager's socket {path}: run the command as the socket's owner \
         or as a member of the `group` set in [control]"
    )]
    NoRight { path: PathBuf },
    #[error("The manager at {path} did not answer within {} s", .waited_ms.div_ceil(1000))]
    NoAnswer { path: PathBuf, waited_ms: u64 },
    #[error("The process at {path} closed the connection before it answered")]
    Closed { path: PathBuf },
    #[error("The data from {path} is not a valid response: {reason}")]
    Garbled { path: PathBuf, reason: String },
    #[error("Cannot find the manager's socket: {why}, or use --socket PATH")]
    NoPlace { why: String },
    #[error("{}", base::plain(&.0.to_string(), 2000))]
    Refused(Failure),
}

fn who(pid: Option<u32>, path: &Path) -> String {
    match pid {
        Some(pid) => format!(" (pid {pid}) manages this machine"),
        None => format!(" manages this machine, with the control socket {}", path.display()),
    }
}
