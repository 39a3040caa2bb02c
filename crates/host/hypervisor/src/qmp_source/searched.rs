//! Directories that have not changed since a search. Another search would find the same sockets.
//! Reading the directory of a hundred guests costs more than reading its time of change.
//!
//! Two changes within one tick of the kernel have the same time. A search is therefore skipped only
//! if two earlier searches, seconds apart, found the same times.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Maximum number of searches that are skipped in a row.
const SKIPPED_MAX: u8 = 4;

/// Identity and last change of a directory. The time of a status change covers its entries, its
/// owner and its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

/// Directories of a search, as they were after the search.
#[derive(Debug)]
pub(super) struct Searched {
    stamps: Vec<(PathBuf, Stamp)>,
    /// True if the search before had the same stamps.
    is_confirmed: bool,
    skipped: u8,
}

fn stamp(path: &PathBuf) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    let changed = (found.ctime(), found.ctime_nsec());
    Some(Stamp { device: found.dev(), inode: found.ino(), changed })
}

impl Searched {
    /// Returns the directories of a search that has just ended. `before` is the search seconds
    /// earlier. Returns `None` if a directory is gone.
    pub(super) fn after(before: Option<Searched>, directories: Vec<PathBuf>) -> Option<Searched> {
        let stamps: Option<Vec<_>> =
            directories.into_iter().map(|path| stamp(&path).map(|stamp| (path, stamp))).collect();
        let stamps = stamps?;
        let is_confirmed = before.is_some_and(|before| before.stamps == stamps);
        Some(Searched { stamps, is_confirmed, skipped: 0 })
    }

    /// Returns true if the next search may be skipped.
    pub(super) fn may_skip(&mut self) -> bool {
        self.skipped += 1;
        let is_same = |(path, before): &(PathBuf, Stamp)| stamp(path) == Some(*before);
        self.is_confirmed && self.skipped <= SKIPPED_MAX && self.stamps.iter().all(is_same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::Tree;

    #[test]
    fn search_is_skipped_until_its_directories_change() {
        let tree = Tree::create();
        tree.file("up/1/a.qmp", "");
        let directories = || vec![tree.path().to_path_buf(), tree.path().join("up/1")];
        let mut first = Searched::after(None, directories()).unwrap();
        assert!(!first.may_skip(), "a later change may have the same time");
        let twice =
            || Searched::after(Searched::after(None, directories()), directories()).unwrap();
        let mut searched = twice();
        assert!((0..SKIPPED_MAX).all(|_| searched.may_skip()));
        assert!(!searched.may_skip(), "now and then all is searched");

        let mut searched = twice();
        fs::create_dir(tree.path().join("up/2")).unwrap();
        fs::rename(tree.path().join("up/1"), tree.path().join("up/3")).unwrap();
        fs::rename(tree.path().join("up/2"), tree.path().join("up/1")).unwrap();
        assert!(!searched.may_skip(), "another directory has the name");

        let mut searched = twice();
        fs::remove_dir(tree.path().join("up/1")).unwrap();
        assert!(!searched.may_skip(), "a directory has gone");
        assert!(Searched::after(None, directories()).is_none());
    }
}
