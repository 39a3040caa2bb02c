//! Search for sockets by patterns such as `/run/pinhead/up/*/*.qmp`, with their owners.
//!
//! The number of entries that are read is limited for each user. A full directory of one user
//! therefore hides no guests of another user.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirEntry};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileTypeExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::owner::{Directory, Refused};
use crate::{Owner, Trust};

/// Maximum number of entries read of one directory. A larger directory is no run directory, and
/// reading it every two seconds would cost more than all guests.
const ENTRIES_MAX: usize = 16_384;

/// Maximum number of entries read for one pattern in a trusted user's directories. A user that may
/// write to a matching directory can create any number of links to one full directory.
const LOOKED_MAX: usize = 65_536;
/// Maximum number of entries read for one pattern in a named user's directories, enough for some
/// hundred guests.
const LOOKED_OF_OTHERS: usize = 4_096;
/// Maximum number of entries read for one pattern below an untrusted user's directories. Few are
/// enough, because only the presence of a socket matters.
const LOOKED_OF_STRANGERS: usize = 256;
/// Maximum number of untrusted users that are recorded.
const OTHERS_MAX: usize = 64;

/// A path pattern. `*` matches any characters, and `?` matches one character. As in a shell,
/// neither matches the leading dot of a hidden name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    parts: Vec<String>,
    /// Maximum number of entries read of one directory.
    pub(super) entries_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Socket {
    pub(super) path: PathBuf,
    /// Inode of the socket. Another inode means another socket of the same name.
    pub(super) inode: u64,
    pub(super) owner: Owner,
}

#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) sockets: Vec<Socket>,
    /// Directories without read permission.
    pub(super) denied: Vec<PathBuf>,
    /// Directories that any user may write to.
    pub(super) open: Vec<PathBuf>,
    /// For each owner, the first directory that was not read completely.
    pub(super) cut: BTreeMap<Owner, PathBuf>,
    /// Untrusted users with a socket in a place for guests.
    pub(super) others: BTreeSet<Owner>,
    /// Directories that determine the result.
    pub(super) directories: Vec<PathBuf>,
    /// True if the result also depends on a user's directories, or on owners of single sockets.
    pub(super) depends_on_more: bool,
    /// Number of entries read for the current pattern, by the owner of their directory.
    looked: BTreeMap<Owner, usize>,
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| write!(f, "/{part}"))
    }
}

impl Glob {
    /// Parses an absolute pattern. For any other pattern, or a pattern with `..`, it returns
    /// `None`.
    pub(super) fn new(pattern: &str) -> Option<Glob> {
        let parts: Vec<String> = pattern.strip_prefix('/')?.split('/').map(str::to_owned).collect();
        let is_plain = |part: &String| !part.is_empty() && part != "." && part != "..";
        parts.iter().all(is_plain).then_some(Glob { parts, entries_max: ENTRIES_MAX })
    }

    /// Adds the current sockets of trusted users.
    pub(super) fn find(&self, trust: &Trust, search: &mut Search) {
        search.looked.clear();
        let Some((last, directories)) = self.parts.split_last() else { return };
        if let Ok(top) = Directory::top() {
            Finder { trust, search, entries_max: self.entries_max }.descend(
                Path::new("/"),
                &top,
                directories,
                last,
            );
        }
    }
}

struct Finder<'a> {
    trust: &'a Trust,
    search: &'a mut Search,
    entries_max: usize,
}

impl Finder<'_> {
    /// Follows a pattern. `at` is the path as written in the pattern, including links.
    fn descend(&mut self, at: &Path, dir: &Directory, directories: &[String], last: &str) {
        self.search.directories.push(at.to_path_buf());
        let Some((part, deeper)) = directories.split_first() else {
            return self.sockets(at, dir, last);
        };
        if !is_pattern(part) {
            return self.enter(at, dir, OsStr::new(part), deeper, last);
        }
        for entry in self.entries(at, dir) {
            let is_other = entry.file_type().is_ok_and(|kind| !kind.is_dir() && !kind.is_symlink());
            if !is_other && matches(part, &entry) {
                self.enter(at, dir, &entry.file_name(), deeper, last);
            }
        }
    }

    fn enter(&mut self, at: &Path, dir: &Directory, name: &OsStr, deeper: &[String], last: &str) {
        match dir.enter(name) {
            Ok(next) if self.trust.covers(next.owner) => {
                self.descend(&at.join(name), &next, deeper, last);
            }
            Ok(next) => {
                self.search.depends_on_more = true;
                self.stranger(&at.join(name), next.owner, deeper, last);
            }
            Err(refused) => self.refused(at, refused),
        }
    }

    fn refused(&mut self, at: &Path, refused: Refused) {
        // When a missing entry is created, its directory changes.
        let is_missing =
            matches!(&refused, Refused::Io(error) if error.kind() == io::ErrorKind::NotFound);
        self.search.depends_on_more |= !is_missing;
        match refused {
            Refused::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.search.denied.push(at.to_path_buf());
            }
            Refused::Open(dir) if !self.search.open.contains(&dir) => self.search.open.push(dir),
            Refused::Open(_) | Refused::Io(_) | Refused::Disputed => {}
        }
    }

    fn sockets(&mut self, at: &Path, dir: &Directory, last: &str) {
        if !is_pattern(last) {
            return self.socket(at, dir, OsStr::new(last));
        }
        for entry in self.entries(at, dir) {
            let Ok(kind) = entry.file_type() else { continue };
            if !(kind.is_socket() || kind.is_symlink()) || !matches(last, &entry) {
                continue;
            }
            match dir.owner_of_all() {
                // Everything in the directory belongs to its owner, so no entry needs a check.
                Some(owner) if kind.is_socket() => {
                    let (path, inode) = (entry.path(), entry.ino());
                    self.search.sockets.push(Socket { path, inode, owner });
                }
                _ => self.socket(at, dir, &entry.file_name()),
            }
        }
    }

    fn socket(&mut self, at: &Path, dir: &Directory, name: &OsStr) {
        self.search.depends_on_more = true;
        match dir.socket(name) {
            Ok((owner, inode)) if self.trust.covers(owner) => {
                self.search.sockets.push(Socket { path: at.join(name), inode, owner });
            }
            Ok((owner, _)) => self.other(owner),
            Err(refused) => self.refused(at, refused),
        }
    }

    /// Records an untrusted user if the user's directory contains a socket. The limit is for all of
    /// the user's directories, because any user may create directories in a place like /tmp.
    fn stranger(&mut self, dir: &Path, owner: Owner, deeper: &[String], last: &str) {
        if self.search.others.contains(&owner) {
            return;
        }
        let looked = self.search.looked.entry(owner).or_default();
        // Even an empty directory has a cost.
        *looked += 1;
        let mut left = LOOKED_OF_STRANGERS.saturating_sub(*looked);
        let has_socket = left == 0 || has_socket(dir, deeper, last, &mut left);
        *looked = LOOKED_OF_STRANGERS - left;
        if has_socket {
            self.other(owner);
        }
    }

    fn other(&mut self, owner: Owner) {
        if self.search.others.len() < OTHERS_MAX {
            self.search.others.insert(owner);
        }
    }

    fn cut(&mut self, at: &Path, owner: Owner) {
        self.search.cut.entry(owner).or_insert_with(|| at.to_path_buf());
    }

    /// Returns the entries of a directory. A missing directory has no entries.
    fn entries(&mut self, at: &Path, dir: &Directory) -> Vec<DirEntry> {
        let most = if dir.owner.is_trusted() { LOOKED_MAX } else { LOOKED_OF_OTHERS };
        let looked = self.search.looked.entry(dir.owner).or_default();
        let most = self.entries_max.min(most.saturating_sub(*looked));
        if most == 0 {
            self.cut(at, dir.owner);
            return Vec::new();
        }
        // Even an empty directory has a cost.
        *looked += 1;
        match fs::read_dir(at) {
            Ok(mut all) => {
                let list: Vec<DirEntry> =
                    all.by_ref().take(most - 1).filter_map(Result::ok).collect();
                *looked += list.len();
                if all.next().is_some() {
                    self.cut(at, dir.owner);
                }
                list
            }
            Err(error) => {
                self.refused(at, Refused::Io(error));
                Vec::new()
            }
        }
    }
}

/// Returns true if another user's directory contains a matching socket, or too many entries to
/// read. Links and mounts of that user are not followed, because they could lead anywhere, or block
/// this process.
fn has_socket(dir: &Path, deeper: &[String], last: &str, left: &mut usize) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, dir, flags, Mode::empty());
    opened.is_ok_and(|dir| holds_socket(&dir, deeper, last, left))
}

fn holds_socket(dir: &OwnedFd, deeper: &[String], last: &str, left: &mut usize) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let within = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    let enter = |name: &OsStr| rustix::fs::openat2(dir, name, flags, Mode::empty(), within);
    let step = deeper.split_first();
    if let Some((part, deeper)) = step.filter(|(part, _)| !is_pattern(part)) {
        return enter(OsStr::new(part)).is_ok_and(|dir| holds_socket(&dir, deeper, last, left));
    }
    let Ok(entries) = fs::read_dir(format!("/proc/self/fd/{}", dir.as_raw_fd())) else {
        return false;
    };
    for entry in entries.filter_map(Result::ok) {
        let Some(rest) = left.checked_sub(1) else { return true };
        *left = rest;
        let is_socket = || entry.file_type().is_ok_and(|kind| kind.is_socket());
        let holds = match step {
            None => matches(last, &entry) && is_socket(),
            Some((part, deeper)) => {
                matches(part, &entry)
                    && enter(&entry.file_name())
                        .is_ok_and(|dir| holds_socket(&dir, deeper, last, left))
            }
        };
        if holds {
            return true;
        }
    }
    false
}

fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?'])
}

fn matches(pattern: &str, entry: &DirEntry) -> bool {
    fits(pattern.as_bytes(), entry.file_name().as_bytes())
}

/// Returns true if a name matches a pattern. A hidden name matches only a pattern that begins with
/// a dot.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let hides = name.first() == Some(&b'.') && pattern.first() != Some(&b'.');
    !hides && base::glob::matches_bytes(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::Tree;
    use std::os::unix::net::UnixListener;

    #[test]
    fn names_fit_patterns() {
        let fits = |pattern: &str, name: &str| fits(pattern.as_bytes(), name.as_bytes());
        for (pattern, name) in
            [("*", "a"), ("*.qmp", "a.b.qmp"), ("a?c", "abc"), ("*a*b", "xaxab"), (".*", ".x")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*.qmp", "a.qmp.x"), ("a?c", "ac"), ("*", ".hidden"), ("?x", ".x"), ("", "a")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
        // Retrying every `*` would take forever here.
        assert!(!fits(&"*a".repeat(40), &"a".repeat(39)));
    }

    #[test]
    fn only_sockets_are_found() {
        let tree = Tree::create();
        tree.file("up/1/notes.qmp", "");
        tree.file("up/2/x", "");
        let bind = |name: &str| UnixListener::bind(tree.path().join(name)).unwrap();
        let _open = [bind("up/1/a.qmp"), bind("up/2/b.qmp"), bind("up/2/b.port")];
        std::os::unix::fs::symlink("a.qmp", tree.path().join("up/1/link.qmp")).unwrap();
        let find = |pattern: &str| {
            let mut search = Search::default();
            let pattern = format!("{}/{pattern}", tree.path().display());
            Glob::new(&pattern).unwrap().find(&Trust::default(), &mut search);
            assert_eq!(search.denied, Vec::<PathBuf>::new());
            let mut names: Vec<String> = search
                .sockets
                .iter()
                .map(|s| s.path.strip_prefix(tree.path()).unwrap().display().to_string())
                .collect();
            names.sort();
            names
        };
        assert_eq!(find("up/*/*.qmp"), ["up/1/a.qmp", "up/1/link.qmp", "up/2/b.qmp"]);
        assert_eq!(find("up/2/b.qmp"), ["up/2/b.qmp"]);
        assert_eq!(find("up/3/b.qmp"), [""; 0]);
        assert_eq!(find("none/*/x"), [""; 0]);
    }

    #[test]
    fn a_user_cannot_make_a_search_long() {
        let tree = Tree::create();
        for file in 0..200 {
            tree.file(&format!("other/{file}"), "");
        }
        std::fs::create_dir(tree.path().join("up")).unwrap();
        // Each link is another directory to read, and creating it costs the user nothing.
        for link in 0..1_000 {
            std::os::unix::fs::symlink("../other", tree.path().join(format!("up/{link}"))).unwrap();
        }
        let mut search = Search::default();
        let pattern = format!("{}/up/*/*.qmp", tree.path().display());
        Glob::new(&pattern).unwrap().find(&Trust::default(), &mut search);
        let looked: usize = search.looked.values().sum();
        assert!(looked <= LOOKED_MAX, "{looked} entries");
    }

    #[test]
    fn stranger_with_many_directories_cannot_make_a_search_long() {
        if Owner::own() != Owner::ROOT {
            base::skipped!("only root can give a directory away");
            return;
        }
        let tree = Tree::create();
        let stranger = Owner(4_000_007);
        for number in 0..LOOKED_OF_STRANGERS + 50 {
            let dir = tree.path().join(format!("up/{number}"));
            std::fs::create_dir_all(&dir).unwrap();
            std::os::unix::fs::chown(dir, Some(stranger.0), Some(stranger.0)).unwrap();
        }
        let mut search = Search::default();
        let pattern = format!("{}/up/*/*.qmp", tree.path().display());
        Glob::new(&pattern).unwrap().find(&Trust::default(), &mut search);
        assert_eq!(search.looked.get(&stranger), Some(&LOOKED_OF_STRANGERS));
        assert!(search.others.contains(&stranger), "there are too many to read");
    }

    #[test]
    fn report_e07_a_user_is_counted_by_sockets_and_not_by_files() {
        if Owner::own() != Owner::ROOT {
            base::skipped!("only root can give a directory away");
            return;
        }
        let tree = Tree::create();
        tree.file("7/pinhead/up/1/notes", "");
        let _socket = UnixListener::bind(tree.path().join("7/pinhead/up/1/g1.qmp")).unwrap();
        tree.file("11/pinhead/up/.lock", "");
        tree.file("11/pinhead/up/1/g1.qmp", "");
        tree.file("8/music/notes", "");
        std::fs::create_dir_all(tree.path().join("9/pinhead/up")).unwrap();
        std::fs::create_dir(tree.path().join("10")).unwrap();
        std::os::unix::fs::symlink("../7/pinhead", tree.path().join("10/pinhead")).unwrap();
        for user in [7, 8, 9, 10, 11] {
            let (dir, owner) = (tree.path().join(user.to_string()), Some(4_000_000 + user));
            std::os::unix::fs::chown(dir, owner, owner).unwrap();
        }
        let mut search = Search::default();
        let pattern = format!("{}/*/pinhead/up/*/*.qmp", tree.path().display());
        Glob::new(&pattern).unwrap().find(&Trust::default(), &mut search);
        let others: Vec<Owner> = search.others.into_iter().collect();
        assert_eq!((search.sockets, others), (Vec::new(), vec![Owner(4_000_007)]));
    }

    #[test]
    fn a_pattern_is_absolute_and_does_not_climb() {
        assert_eq!(Glob::new("run/*.qmp"), None);
        assert_eq!(Glob::new("/run/../*.qmp"), None);
        assert_eq!(Glob::new("/run//*.qmp"), None);
        assert_eq!(Glob::new("/"), None);
    }
}
