//! Faults of guests on their way to a park and back.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reason why a guest is not paged out, not saved, or not brought back. Copies of a fault share its
/// cause.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("pinhead cannot start a thread")]
    NoThread(#[source] Arc<io::Error>),
    #[error("the thread that does this has ended")]
    ThreadEnded,
    #[error("this host has no swap")]
    NoSwap,
    #[error("its QEMU is gone")]
    NoQemu,
    #[error("its QEMU has not answered for {seconds} s")]
    Late { seconds: u64 },
    #[error("the guest does not resume")]
    Stuck,
    #[error("its QEMU was started without support for parking on disk")]
    NoFile,
    #[error("it is not a clone")]
    NoClone,
    #[error("the file was written by another guest, or for another template")]
    Foreign,
    #[error("QEMU does not resume from the saved state: {desc}")]
    State { desc: String },
    /// Text of an error that QEMU reported.
    #[error("{0}")]
    Qemu(String),
    /// An error of the system, or of a library.
    #[error(transparent)]
    Cause(Arc<dyn Error + Send + Sync>),
    #[error("{path}")]
    File { path: PathBuf, source: Box<Fault> },
}

impl Fault {
    pub(super) fn of(cause: impl Error + Send + Sync + 'static) -> Fault {
        Fault::Cause(Arc::new(cause))
    }

    /// Adds the path of the guest's file.
    pub(super) fn at(self, path: &Path) -> Fault {
        Fault::File { path: path.into(), source: Box::new(self) }
    }
}
