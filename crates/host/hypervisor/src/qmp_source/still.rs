//! Directories that have not changed since a search. A second search of them would find the same
//! sockets, and reading a hundred guests' directory costs more than asking for its time of change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Age of a directory's last change from which it is told apart from the next change. File systems
/// round times to the kernel's tick.
const DISTINCT: Duration = Duration::from_secs(1);
/// Maximum number of searches that are left out in a row.
const LEFT_OUT_MAX: u8 = 4;

/// Identity and last change of a directory. The time of a status change covers its entries, its
/// owner and its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

/// Directories of a search, as they were before the search.
#[derive(Debug)]
pub(super) struct Still {
    stamps: Vec<(PathBuf, Stamp)>,
    left_out: u8,
}

fn stamp(path: &PathBuf) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    let changed = (found.ctime(), found.ctime_nsec());
    Some(Stamp { device: found.dev(), inode: found.ino(), changed })
}

impl Still {
    /// Returns the directories of a search that ended just now, unless one of them changed so short
    /// a time before `searched` that the search may have missed the change.
    pub(super) fn of(directories: Vec<PathBuf>, searched: SystemTime) -> Option<Still> {
        let latest = searched.checked_sub(DISTINCT)?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let latest = (i64::try_from(latest.as_secs()).ok()?, i64::from(latest.subsec_nanos()));
        let stamps: Option<Vec<_>> = directories
            .into_iter()
            .map(|path| stamp(&path).filter(|s| s.changed < latest).map(|stamp| (path, stamp)))
            .collect();
        Some(Still { stamps: stamps?, left_out: 0 })
    }

    /// Returns true if the next search may be left out.
    pub(super) fn leaves_out(&mut self) -> bool {
        self.left_out += 1;
        let is_same = |(path, before): &(PathBuf, Stamp)| stamp(path) == Some(*before);
        self.left_out <= LEFT_OUT_MAX && self.stamps.iter().all(is_same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn search_is_left_out_until_its_directories_change() {
        let tree = Tree::new();
        tree.file("up/1/a.qmp", "");
        let directories = || vec![tree.path().to_path_buf(), tree.path().join("up/1")];
        let now = SystemTime::now();
        assert!(Still::of(directories(), now).is_none(), "a later change may have the same time");

        let later = now + Duration::from_secs(10);
        let mut still = Still::of(directories(), later).unwrap();
        assert!((0..LEFT_OUT_MAX).all(|_| still.leaves_out()));
        assert!(!still.leaves_out(), "now and then all is searched");

        let mut still = Still::of(directories(), later).unwrap();
        fs::remove_file(tree.path().join("up/1/a.qmp")).unwrap();
        assert!(!still.leaves_out(), "an entry has gone");

        let mut still = Still::of(directories(), later).unwrap();
        fs::remove_dir(tree.path().join("up/1")).unwrap();
        assert!(!still.leaves_out(), "a directory has gone");
    }
}
