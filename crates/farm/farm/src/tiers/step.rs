//! One change of the host, as recorded for its undoing.
//!
//! The process that undoes a record gets no other data from the process that wrote the record. Each
//! entry therefore contains enough to check that the change is still ours. The paths in a record
//! are checked, so that only files and cgroups with our names are removed.

use std::path::{Component, Path, PathBuf};

use hypervisor::KsmFiles;
use serde::{Deserialize, Serialize};

/// Prefix of the names of our cgroups and swap files.
pub(super) const PREFIX: &str = "pinhead-";
/// Prefix of the names of guests' own cgroups, below ours.
pub(super) const GUEST_PREFIX: &str = "guest-";
/// Suffix of the names of our swap files.
pub(super) const SWAP_SUFFIX: &str = ".swap";

/// Result of undoing an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// The entry needs no further action.
    Undone,
    /// Another process has changed the setting, and will restore our value when it ends. Our change
    /// is undone after the other process has ended.
    Later,
}

/// A change to undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub(super) enum Undo {
    /// The memory controller was delegated to the cgroups in this directory.
    Controller { dir: PathBuf },
    /// A cgroup was made. Processes in the cgroup return to `home`, the cgroup of its maker.
    Cgroup { dir: PathBuf, home: PathBuf },
    /// A cgroup without a memory limit was made. The cgroup is a parent of guests' own cgroups, or
    /// limits reads.
    Guests { dir: PathBuf, home: PathBuf },
    /// The zram module was loaded.
    ZramModule,
    /// A device was about to be added. `before` contains the numbers of the devices that existed.
    ZramAdding { before: Vec<u32> },
    /// A device was added. The device has this size, or no size yet.
    Zram { id: u32, bytes: u64 },
    /// A swap file was made.
    SwapFile { path: PathBuf },
    /// Swap was turned on.
    Swap { path: PathBuf, bytes: u64 },
    /// KSM's settings as they were found, and as they were written last.
    Ksm {
        saved: Vec<(String, String)>,
        #[serde(rename = "told")]
        written: Vec<(String, String)>,
    },
}

impl Undo {
    /// Returns true if the entry may stem from a record of ours.
    pub(super) fn is_plausible(&self) -> bool {
        let is_plain = |path: &Path| {
            path.is_absolute() && path.components().all(|part| part != Component::ParentDir)
        };
        let is_swap_file = |path: &Path| is_plain(path) && has_name(path, PREFIX, SWAP_SUFFIX);
        match self {
            Undo::Controller { dir } => is_plain(dir),
            Undo::Cgroup { dir, home } | Undo::Guests { dir, home } => {
                is_plain(dir) && has_name(dir, PREFIX, "") && is_plain(home)
            }
            Undo::SwapFile { path } => is_swap_file(path),
            Undo::Swap { path, .. } => {
                is_swap_file(path) || is_plain(path) && has_name(path, "zram", "")
            }
            Undo::Ksm { saved, written } => {
                saved.iter().chain(written).all(|(name, _)| KsmFiles::is_driven(name))
            }
            Undo::ZramModule | Undo::ZramAdding { .. } | Undo::Zram { .. } => true,
        }
    }
}

fn has_name(path: &Path, prefix: &str, suffix: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(prefix) && name.ends_with(suffix))
}
