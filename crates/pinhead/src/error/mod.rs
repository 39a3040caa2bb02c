//! Errors of the commands, with messages for their user.

mod farms;
mod fleet;
mod manage;
mod recordings;
mod rules;
mod size;
mod times;
mod up;
mod values;
mod zvm;

pub use farms::FarmCommandError;
pub use fleet::FleetError;
pub use manage::ManageError;
pub use recordings::RecordingsError;
pub use rules::{RulesError, SnapshotFault};
pub use size::SizeError;
pub use times::TimeError;
pub use up::UpError;
pub use values::ValueError;
pub use zvm::ZvmError;

use std::io;
use std::path::{Path, PathBuf};

/// An error of a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}:{line}:{column}: {message}")]
    Line { path: PathBuf, line: usize, column: usize, message: String },
    #[error(transparent)]
    Kernel(#[from] procfs::Error),
    /// A guest's image, kernel or package is not available.
    #[error(transparent)]
    Image(#[from] vm::images::Error),
    /// A guest cannot be started or reached.
    #[error(transparent)]
    Guest(#[from] vm::Error),
    #[error(transparent)]
    Farm(#[from] farm::Error),
    #[error(transparent)]
    FarmFile(farm::config::LoadError),
    /// All faults of a farm's file, one per line.
    #[error("{0}")]
    FarmFaults(String),
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The manager cannot start, or cannot continue.
    #[error(transparent)]
    Host(manager::Error),
    #[error(transparent)]
    Control(manager::control::Error),
    /// A metrics server does not answer as expected.
    #[error(transparent)]
    Metrics(#[from] metrics::Error),
    /// A host without pinhead does not answer as expected.
    #[error(transparent)]
    Remote(#[from] metrics::remote::Error),
    #[error(transparent)]
    Report(#[from] reports::Error),
    /// Recordings, or samples of a metrics server, are not available.
    #[error(transparent)]
    Recorded(#[from] reports::recorded::Error),
    /// A simulation of recorded load failed.
    #[error(transparent)]
    Backtest(#[from] whatif::backtest::Error),
    /// The journal cannot answer a question about past decisions.
    #[error(transparent)]
    Why(#[from] why::Error),
    /// The screens cannot be shown.
    #[error(transparent)]
    Top(top::Error),
    #[error(transparent)]
    FarmCommand(#[from] FarmCommandError),
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error(transparent)]
    Manage(#[from] ManageError),
    #[error(transparent)]
    Recordings(#[from] RecordingsError),
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error(transparent)]
    Time(#[from] TimeError),
    #[error(transparent)]
    Up(#[from] UpError),
    #[error(transparent)]
    Zvm(#[from] ZvmError),
    #[error("No packages and no disk are called {name}: {hint}")]
    NotCached { name: String, hint: String },
    #[error(
        "{name} was not found at {beside} or {installed}. The package pinhead contains it; in a \
         checkout, run `make build`"
    )]
    NoProgram { name: &'static str, beside: PathBuf, installed: PathBuf },
    /// The reader of the output closed the pipe early (`| head`), which is no failure.
    #[error("The reader of the output has gone")]
    NoReader,
    /// A step that the system, or a library, refused.
    #[error("{what}")]
    Step { what: String, source: Box<dyn std::error::Error + Send + Sync> },
}

impl Error {
    /// Returns the error of a step, with the reason for its failure.
    pub fn step<E>(what: impl Into<String>, source: E) -> Error
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Error::Step { what: what.into(), source: source.into() }
    }

    pub(crate) fn read(path: &Path, source: io::Error) -> Error {
        Error::Read { path: path.into(), source }
    }
}

impl From<farm::config::LoadError> for Error {
    fn from(error: farm::config::LoadError) -> Error {
        match error.faults() {
            Some(faults) => Error::FarmFaults(faults),
            None => Error::FarmFile(error),
        }
    }
}
