//! One change of the host, as the record holds it: what was made, so that it can be undone.
//!
//! A record is read by a process that has nothing else from its maker. So each entry holds enough
//! to see whether what was made is still ours. What a record names is checked:
//! nothing is removed that does not have a name of ours.

use std::path::{Component, Path, PathBuf};

use hypervisor::KsmFiles;
use serde::{Deserialize, Serialize};

/// What the names of our cgroups and swap files begin with.
pub(super) const PREFIX: &str = "pinhead-";
/// What the names of guests' own cgroups begin with, below ours.
pub(super) const GUEST_PREFIX: &str = "guest-";
/// What the names of our swap files end with.
pub(super) const SWAP_SUFFIX: &str = ".swap";

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// There is nothing more to do.
    Undone,
    /// Another process has it and will put back what it found, which was ours: then it is our turn.
    Later,
}

/// What is to be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub(super) enum Undo {
    /// The controller of memory was given to the cgroups in this directory.
    Controller { dir: PathBuf },
    /// A cgroup was made; its processes go home, to the cgroup of its maker.
    Cgroup { dir: PathBuf, home: PathBuf },
    /// The same for one that has no limit of memory: guests' own lie below it, or it limits reads.
    Guests { dir: PathBuf, home: PathBuf },
    /// The module was loaded.
    ZramModule,
    /// A device was about to be added, and these were there.
    ZramAdding { before: Vec<u32> },
    /// A device was added; it has this size, or none yet.
    Zram { id: u32, bytes: u64 },
    /// A swap file was made.
    SwapFile { path: PathBuf },
    /// It was swapped on.
    Swap { path: PathBuf, bytes: u64 },
    /// KSM's settings: what was found, and what was written last.
    Ksm {
        saved: Vec<(String, String)>,
        #[serde(rename = "told")]
        written: Vec<(String, String)>,
    },
}

impl Undo {
    /// Whether a record of ours may hold it.
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
