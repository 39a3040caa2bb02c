//! Errors of counters above a guest of z/VM or an LPAR.

use std::path::PathBuf;

/// Counters of the hypervisor or the machine that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ZvmError {
    #[error(
        "{path} has none of diag_2fc, diag_204 and hyp/type, and {tree} is not there: it takes a \
         guest of z/VM or an LPAR, root, and debugfs"
    )]
    NoCounters { path: PathBuf, tree: &'static str },
    #[error("{path} changes all the time: somebody else renews it")]
    Changing { path: PathBuf },
    #[error("No interval ends in {files}: {found}; is it a file of MONWRITE, in binary?")]
    NoInterval { files: &'static str, found: String },
    #[error(
        "{path} is not there: only s390x kernels have it, and elsewhere a guest cannot see what \
         it runs on"
    )]
    NoSysinfo { path: PathBuf },
    #[error("{path} names no level")]
    NoLevel { path: PathBuf },
    #[error(
        "{path} is empty: the system call s390_sthyi failed when it was made; the command in \
         docs/zvm.md says so at once"
    )]
    EmptySthyi { path: PathBuf },
    #[error("{path} is no answer of STHYI")]
    Sthyi { path: PathBuf, source: zmon::Error },
}
