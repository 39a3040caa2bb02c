//! Finds sockets by patterns such as `/run/pinhead/up/*/*.qmp`.

use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Entries of one directory that are looked at. A directory with more is nobody's run directory,
/// and reading it every two seconds would cost more than all guests.
const ENTRIES_MAX: usize = 16_384;

/// Entries that one pattern is worth in all. A user who may write where a pattern leads can put
/// links there to one full directory as often as they like.
const LOOKED_MAX: usize = 65_536;

/// A path whose parts may hold `*` for any characters and `?` for one. As in a shell, neither
/// stands for the dot that hides a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    parts: Vec<String>,
}

/// A socket that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Socket {
    pub(super) path: PathBuf,
    /// Another number means another socket of the same name.
    pub(super) inode: u64,
}

/// What a search has found.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) sockets: Vec<Socket>,
    /// Directories that may not be read.
    pub(super) denied: Vec<PathBuf>,
    /// Entries that the current pattern has cost.
    looked: usize,
}

impl Glob {
    /// Takes an absolute pattern; `None` for any other, and for one that climbs.
    pub(super) fn new(pattern: &str) -> Option<Glob> {
        let parts: Vec<String> = pattern.strip_prefix('/')?.split('/').map(str::to_owned).collect();
        let is_plain = |part: &String| !part.is_empty() && part != "." && part != "..";
        parts.iter().all(is_plain).then_some(Glob { parts })
    }

    /// Adds what is there now, up to `most` sockets in all.
    pub(super) fn find(&self, most: usize, search: &mut Search) {
        search.looked = 0;
        if let Some((last, directories)) = self.parts.split_last() {
            descend(Path::new("/"), directories, last, most, search);
        }
    }
}

fn descend(at: &Path, directories: &[String], last: &str, most: usize, search: &mut Search) {
    let Some((part, deeper)) = directories.split_first() else {
        return sockets(at, last, most, search);
    };
    if !is_pattern(part) {
        return descend(&at.join(part), deeper, last, most, search);
    }
    for entry in entries(at, search) {
        let is_other = entry.file_type().is_ok_and(|kind| !kind.is_dir() && !kind.is_symlink());
        if !is_other && matches(part, &entry) {
            descend(&entry.path(), deeper, last, most, search);
        }
    }
}

fn sockets(at: &Path, last: &str, most: usize, search: &mut Search) {
    if !is_pattern(last) {
        let path = at.join(last);
        if let Some(inode) = socket_inode(&path)
            && search.sockets.len() < most
        {
            search.sockets.push(Socket { path, inode });
        }
        return;
    }
    for entry in entries(at, search) {
        if search.sockets.len() >= most {
            return;
        }
        let Ok(kind) = entry.file_type() else { continue };
        if !matches(last, &entry) {
            continue;
        }
        let path = entry.path();
        let inode = match kind.is_symlink() {
            true => socket_inode(&path),
            false => kind.is_socket().then(|| entry.ino()),
        };
        search.sockets.extend(inode.map(|inode| Socket { path, inode }));
    }
}

fn socket_inode(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    metadata.file_type().is_socket().then(|| metadata.ino())
}

/// The entries of a directory. One that is not there has none.
fn entries(at: &Path, search: &mut Search) -> Vec<DirEntry> {
    let most = ENTRIES_MAX.min(LOOKED_MAX.saturating_sub(search.looked));
    if most == 0 {
        return Vec::new();
    }
    // A directory costs something as well, if there is nothing in it.
    search.looked += 1;
    match fs::read_dir(at) {
        Ok(list) => {
            let list: Vec<DirEntry> = list.take(most - 1).filter_map(Result::ok).collect();
            search.looked += list.len();
            list
        }
        Err(error) => {
            if error.kind() == io::ErrorKind::PermissionDenied {
                search.denied.push(at.to_path_buf());
            }
            Vec::new()
        }
    }
}

fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?'])
}

fn matches(pattern: &str, entry: &DirEntry) -> bool {
    fits(pattern.as_bytes(), entry.file_name().as_bytes())
}

/// Whether a name fits a pattern: a hidden one fits only a pattern that begins with a dot.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let hides = name.first() == Some(&b'.') && pattern.first() != Some(&b'.');
    !hides && base::glob::matches_bytes(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
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
        // What would take forever if every `*` were tried again.
        assert!(!fits(&"*a".repeat(40), &"a".repeat(39)));
    }

    #[test]
    fn only_sockets_are_found() {
        let tree = Tree::new();
        tree.file("up/1/notes.qmp", "");
        tree.file("up/2/x", "");
        let bind = |name: &str| UnixListener::bind(tree.path().join(name)).unwrap();
        let _open = [bind("up/1/a.qmp"), bind("up/2/b.qmp"), bind("up/2/b.port")];
        std::os::unix::fs::symlink("a.qmp", tree.path().join("up/1/link.qmp")).unwrap();
        let find = |pattern: &str, most| {
            let mut search = Search::default();
            let pattern = format!("{}/{pattern}", tree.path().display());
            Glob::new(&pattern).unwrap().find(most, &mut search);
            assert_eq!(search.denied, Vec::<PathBuf>::new());
            let mut names: Vec<String> = search
                .sockets
                .iter()
                .map(|s| s.path.strip_prefix(tree.path()).unwrap().display().to_string())
                .collect();
            names.sort();
            names
        };
        assert_eq!(find("up/*/*.qmp", 10), ["up/1/a.qmp", "up/1/link.qmp", "up/2/b.qmp"]);
        assert_eq!(find("up/*/*.qmp", 2).len(), 2);
        assert_eq!(find("up/2/b.qmp", 10), ["up/2/b.qmp"]);
        assert_eq!(find("up/3/b.qmp", 10), [""; 0]);
        assert_eq!(find("none/*/x", 10), [""; 0]);
    }

    #[test]
    fn a_user_cannot_make_a_search_long() {
        let tree = Tree::new();
        for file in 0..200 {
            tree.file(&format!("other/{file}"), "");
        }
        std::fs::create_dir(tree.path().join("up")).unwrap();
        // Each link is another directory to look at, and costs its owner nothing.
        for link in 0..1_000 {
            std::os::unix::fs::symlink("../other", tree.path().join(format!("up/{link}"))).unwrap();
        }
        let mut search = Search::default();
        let pattern = format!("{}/up/*/*.qmp", tree.path().display());
        Glob::new(&pattern).unwrap().find(10, &mut search);
        assert!(search.looked <= LOOKED_MAX, "{} entries", search.looked);
    }

    #[test]
    fn a_pattern_is_absolute_and_does_not_climb() {
        assert_eq!(Glob::new("run/*.qmp"), None);
        assert_eq!(Glob::new("/run/../*.qmp"), None);
        assert_eq!(Glob::new("/run//*.qmp"), None);
        assert_eq!(Glob::new("/"), None);
    }
}
