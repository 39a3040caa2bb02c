//! Errors of counters above a guest of z/VM or an LPAR.

use std::path::PathBuf;

/// Counters of the hypervisor or the machine that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ZvmError {
    #[error(
        "{path} has none of diag_2fc, diag_204 and hyp/type, and {tree} does not exist: this \
         command needs a guest of z/VM or an LPAR, root, and debugfs"
    )]
    NoCounters { path: PathBuf, tree: &'static str },
    #[error("{path} changes all the time, because another program updates it")]
    Changing { path: PathBuf },
    #[error(
        "No interval ends in {files}: {found}. Check that MONWRITE wrote this, and that the \
         transfer was binary"
    )]
    NoInterval { files: &'static str, found: String },
    #[error(
        "{path} does not exist: only s390x kernels have it, and other guests cannot see the \
         machine below them"
    )]
    NoSysinfo { path: PathBuf },
    #[error("{path} describes no machine, partition or hypervisor")]
    NoLevel { path: PathBuf },
    #[error(
        "{path} is empty: the system call s390_sthyi failed when the file was written; the command \
         in docs/zvm.md shows the error"
    )]
    EmptySthyi { path: PathBuf },
    #[error("{path} is not a response of STHYI")]
    Sthyi { path: PathBuf, source: zmon::Error },
}
