//! What can go wrong with the control socket, at either end.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::Failure;

/// The socket cannot be had, or gave no answer.
#[derive(Debug)]
pub enum Error {
    /// Another manager has the socket.
    Taken {
        /// Its process, if it has written it down.
        pid: Option<u32>,
        /// The socket.
        path: PathBuf,
    },
    /// There is something of another kind where the socket belongs.
    NotASocket {
        /// Where.
        path: PathBuf,
    },
    /// A group that this host does not have.
    NoSuchGroup {
        /// Its name.
        group: String,
    },
    /// The system refuses a step.
    Step {
        /// What was tried, such as "make the directory".
        step: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Nobody listens there.
    NoManager {
        /// The socket.
        path: PathBuf,
    },
    /// The caller may not ask.
    NoRight {
        /// The socket.
        path: PathBuf,
    },
    /// The manager did not answer in time.
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// How long was waited.
        waited_ms: u64,
    },
    /// What came was no answer.
    Garbled {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The manager answered that it will not.
    Refused(Failure),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Taken { pid: Some(pid), .. } => {
                write!(f, "Another pinhead host (pid {pid}) manages this machine")
            }
            Error::Taken { pid: None, path } => {
                write!(f, "Another pinhead host manages this machine: it has {}", path.display())
            }
            Error::NotASocket { path } => write!(
                f,
                "{} is there and is no socket: remove it, or set another path in [control]",
                path.display()
            ),
            Error::NoSuchGroup { group } => write!(
                f,
                "There is no group {}: make it with groupadd, or change `group` in [control]",
                group.escape_debug()
            ),
            Error::Step { step, path, .. } => {
                write!(f, "Cannot {step} {}", path.display())
            }
            Error::NoManager { path } => write!(
                f,
                "No pinhead host runs here (nobody listens at {}): start it with `pinhead host`",
                path.display()
            ),
            Error::NoRight { path } => write!(
                f,
                "You may not ask the manager: {} is for its owner, and for the group that \
                 [control] names",
                path.display()
            ),
            Error::NoAnswer { path, waited_ms } => write!(
                f,
                "The manager at {} did not answer within {} s",
                path.display(),
                waited_ms.div_ceil(1000)
            ),
            Error::Garbled { path, reason } => {
                write!(f, "What came from {} is no answer: {reason}", path.display())
            }
            Error::Refused(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Step { source, .. } => Some(source),
            _ => None,
        }
    }
}
