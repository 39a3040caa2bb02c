//! What stops the manager, or keeps it from starting.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The manager cannot go on, or not begin.
#[derive(Debug)]
pub enum Error {
    /// The settings were not taken.
    Settings(crate::config::LoadError),
    /// A file of rules cannot be read.
    Rules {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of rules is wrong.
    RulesWrong {
        /// The file.
        path: PathBuf,
        /// The first fault, with its line and column.
        first: String,
        /// How many faults there are.
        count: usize,
    },
    /// The host's own counters cannot be read.
    Machine(kernfs::Error),
    /// Waiting failed, which it never does.
    Poll {
        /// What the system said.
        source: io::Error,
    },
    /// The control socket cannot be had.
    Control(crate::control::Error),
    /// Something has no place, because the environment does not say where.
    NoPlace {
        /// What.
        what: &'static str,
        /// The key of the settings that would say it.
        key: &'static str,
    },
    /// The keeper, which holds the lease, cannot be started.
    Keeper {
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Settings(error) => error.fmt(f),
            Error::Rules { path, .. } => {
                write!(f, "The rules in {} cannot be read", path.display())
            }
            Error::RulesWrong { path, first, count } => write!(
                f,
                "The rules in {} have {count} fault(s), the first at {first}; `pinhead check` \
                 shows all of them",
                path.display()
            ),
            Error::Machine(error) => error.fmt(f),
            Error::Poll { .. } => f.write_str("Waiting for guests failed"),
            Error::Control(error) => error.fmt(f),
            Error::NoPlace { what, key } => write!(
                f,
                "There is no place for {what}: XDG_RUNTIME_DIR is not set; name one with {key}"
            ),
            Error::Keeper { .. } => f.write_str(
                "The keeper could not be started, without which nobody gives memory back if this \
                 manager dies",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Settings(error) => error.source(),
            Error::Rules { source, .. } | Error::Poll { source } | Error::Keeper { source } => {
                Some(source)
            }
            Error::Machine(error) => error.source(),
            Error::Control(error) => error.source(),
            Error::RulesWrong { .. } | Error::NoPlace { .. } => None,
        }
    }
}
