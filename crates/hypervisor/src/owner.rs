//! Whose a guest is: the user who alone controls the place where its monitor's socket lies.
//!
//! ```text
//!   /run/pinhead/up/7/g1.qmp            root's, whichever user QEMU itself runs as
//!   /run/user/1000/pinhead/up/7/g1.qmp  user 1000's
//!   /tmp/g1.qmp                         its maker's: in a sticky directory nobody else replaces it
//!   /srv/open/g1.qmp, anybody writes    nobody's: whoever comes last has put it there
//! ```
//!
//! What the guest or its QEMU says about itself does not count, nor does the number of a process:
//! both are the user's own to choose. A guest of root, or of the user of this process, may be
//! managed by this process; another user's only if that user is named.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Links that are followed on the way to one directory.
const LINKS_MAX: u32 = 8;
/// A directory in which everybody may only replace what is their own.
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// A file system that some process makes up (FUSE), as statfs tells it.
const FUSE: u32 = 0x6573_5546;

/// A user who has guests, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u32);

impl Owner {
    /// Root.
    pub const ROOT: Owner = Owner(0);

    /// The user of this process.
    pub fn own() -> Owner {
        Owner(rustix::process::geteuid().as_raw())
    }

    /// Owner of everything in a directory, if besides root one user alone may put things there.
    pub fn of_directory(path: &Path) -> Option<Owner> {
        Directory::at(path).ok()?.owner_of_all()
    }

    /// Whether this user may decide about this process anyway: it is root, or the process's own.
    pub fn is_trusted(self) -> bool {
        self == Owner::ROOT || self == Owner::own()
    }
}

/// The users whose guests count: root, the user of this process, and those that are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    named: BTreeSet<Owner>,
}

impl Trust {
    /// Names other users.
    pub fn naming(named: impl IntoIterator<Item = Owner>) -> Trust {
        Trust { named: named.into_iter().collect() }
    }

    /// Whether a user's guests count.
    pub fn covers(&self, owner: Owner) -> bool {
        owner.is_trusted() || self.named.contains(&owner)
    }
}

/// Why a place is nobody's, or cannot be looked at.
#[derive(Debug)]
pub(crate) enum Refused {
    Io(io::Error),
    /// Anybody may put things into this directory.
    Open(PathBuf),
    /// Two users, neither of them root, may change what is there, or it is behind a link that a
    /// user could turn elsewhere.
    Disputed,
}

impl From<rustix::io::Errno> for Refused {
    fn from(error: rustix::io::Errno) -> Refused {
        Refused::Io(error.into())
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Io(error)
    }
}

/// Who may make, remove and replace what is in a directory, besides root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writers {
    Owner,
    /// Everybody, each their own.
    EachTheirOwn,
    Anybody,
}

/// A directory, by its path without links, and who controls the way to it.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    pub(crate) owner: Owner,
    writers: Writers,
    /// The file system that it is in.
    device: u64,
}

/// An entry that leads on.
enum Entry {
    Directory(Directory),
    Link(PathBuf),
}

impl Directory {
    /// The root of all paths.
    pub(crate) fn top() -> Result<Directory, Refused> {
        let found = fs::metadata("/")?;
        let (owner, writers, device) = (Owner(found.uid()), writers(&found), found.dev());
        Ok(Directory { path: "/".into(), owner, writers, device })
    }

    /// The directory of this absolute path. Links are followed where nobody but root and the user
    /// of this process can turn them.
    pub(crate) fn at(path: &Path) -> Result<Directory, Refused> {
        let mut way = vec![Directory::top()?];
        let mut pending = parts(path);
        let mut links = 0;
        while let (Some(part), Some(dir)) = (pending.pop(), way.last()) {
            if part == ".." {
                way.truncate(way.len().saturating_sub(1).max(1));
                continue;
            }
            match dir.look(&part)? {
                Entry::Directory(next) => way.push(next),
                Entry::Link(target) => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Refused::Disputed);
                    }
                    if target.is_absolute() {
                        way.truncate(1);
                    }
                    pending.append(&mut parts(&target));
                }
            }
        }
        way.pop().ok_or(Refused::Disputed)
    }

    /// A directory in this one.
    pub(crate) fn enter(&self, name: &OsStr) -> Result<Directory, Refused> {
        match self.look(name)? {
            Entry::Directory(next) => Ok(next),
            Entry::Link(target) => Directory::at(&self.path.join(target)),
        }
    }

    /// Whose everything in this directory is, whoever made it; `None` where each entry is its
    /// maker's.
    pub(crate) fn owner_of_all(&self) -> Option<Owner> {
        (self.writers == Writers::Owner).then_some(self.owner)
    }

    /// Whose a socket in this directory is, and its inode.
    pub(crate) fn socket(&self, name: &OsStr) -> Result<(Owner, u64), Refused> {
        let mut at = self.path.join(name);
        let mut dir = self.clone();
        for _ in 0..LINKS_MAX {
            let found = fs::symlink_metadata(&at)?;
            let owner = dir.entry_owner(&found)?;
            if found.file_type().is_socket() {
                return Ok((owner, found.ino()));
            }
            if !found.file_type().is_symlink() || !owner.is_trusted() {
                break;
            }
            let target = dir.path.join(fs::read_link(&at)?);
            let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else { break };
            dir = Directory::at(parent)?;
            at = dir.path.join(name);
        }
        Err(Refused::Disputed)
    }

    fn look(&self, name: &OsStr) -> Result<Entry, Refused> {
        let path = self.path.join(name);
        let found = fs::symlink_metadata(&path)?;
        let owner = self.entry_owner(&found)?;
        if found.file_type().is_symlink() {
            return match owner.is_trusted() {
                true => Ok(Entry::Link(fs::read_link(&path)?)),
                false => Err(Refused::Disputed),
            };
        }
        if !found.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
        }
        let found = if found.dev() == self.device { found } else { mounted(&path)? };
        // Whoever owns it may change its mode, and what is in it.
        let owner = joint(owner, Owner(found.uid())).ok_or(Refused::Disputed)?;
        let (writers, device) = (writers(&found), found.dev());
        Ok(Entry::Directory(Directory { path, owner, writers, device }))
    }

    /// Who can have put an entry into this directory.
    fn entry_owner(&self, entry: &Metadata) -> Result<Owner, Refused> {
        match self.writers {
            Writers::Owner => Ok(self.owner),
            Writers::EachTheirOwn => joint(self.owner, Owner(entry.uid())).ok_or(Refused::Disputed),
            Writers::Anybody => Err(Refused::Open(self.path.clone())),
        }
    }
}

/// A directory where something may be mounted. Any user may mount what a process of theirs makes
/// up, and it may say that root owns it: such a place is nobody's.
fn mounted(path: &Path) -> Result<Metadata, Refused> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pinned = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if is_made_up(rustix::fs::fstatfs(&pinned)?.f_type as u32) {
        return Err(Refused::Disputed);
    }
    let found = pinned.metadata()?;
    match found.is_dir() {
        true => Ok(found),
        false => Err(io::Error::from(io::ErrorKind::NotADirectory).into()),
    }
}

fn is_made_up(kind: u32) -> bool {
    kind == FUSE
}

/// Who controls what both of these control. Root could anyway.
fn joint(one: Owner, other: Owner) -> Option<Owner> {
    match (one, other) {
        (one, other) if one == other || other == Owner::ROOT => Some(one),
        (Owner::ROOT, other) => Some(other),
        _ => None,
    }
}

fn writers(directory: &Metadata) -> Writers {
    let mode = directory.mode();
    // Many systems give each user a group of the same number, with nobody else in it.
    let own_group = directory.gid() == directory.uid() && directory.uid() != Owner::ROOT.0;
    let by_group = mode & GROUP_WRITES != 0 && !own_group;
    match mode & OTHERS_WRITE != 0 || by_group {
        false => Writers::Owner,
        true if mode & STICKY != 0 => Writers::EachTheirOwn,
        true => Writers::Anybody,
    }
}

/// The parts of a path, the first one last.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    parts.collect()
}

/// Whose the socket at this path is.
pub(crate) fn of_socket(path: &Path) -> Result<Owner, Refused> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Refused::Disputed);
    };
    Ok(Directory::at(parent)?.socket(name)?.0)
}

/// Connects to a socket of this user, without waiting. A path in another user's hands could lead
/// anywhere by now: there the socket must be of that user's making and listened to by that user.
pub fn connect(path: &Path, owner: Owner) -> io::Result<UnixStream> {
    match owner.is_trusted() {
        true => reactor::connect(path),
        false => connect_if(path, |maker| maker == owner, |peer| peer == owner),
    }
}

/// Connects to a socket if its maker and then its listener are the right ones. Nothing is ever
/// connected to that has another maker, whatever becomes of the path meanwhile.
fn connect_if(
    path: &Path,
    is_maker: impl Fn(Owner) -> bool,
    is_peer: impl Fn(Owner) -> bool,
) -> io::Result<UnixStream> {
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pinned = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let found = pinned.metadata()?;
    if !found.file_type().is_socket() || !is_maker(Owner(found.uid())) {
        return Err(denied());
    }
    let stream = reactor::connect(Path::new(&format!("/proc/self/fd/{}", pinned.as_raw_fd())))?;
    match is_peer(peer(&stream)?) {
        true => Ok(stream),
        false => Err(denied()),
    }
}

/// The user whose process listened at the other end.
pub(crate) fn peer(stream: &UnixStream) -> io::Result<Owner> {
    Ok(Owner(reactor::peer(stream)?.uid))
}

/// Which sockets are opened because a guest's monitor, or libvirt, names them as its port.
///
/// One that belongs to the user as whom QEMU runs: QEMU could connect to it as well. One beside
/// the monitor in the directory of the guest's owner, of the same name but for its ending, such as
/// `g1.port` of `g1.qmp`: what has other names there is other guests', and the owner's. And where
/// libvirt has named it, one of root's too. Anything else is a way to have root open what its user
/// may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAccess {
    pub(crate) owner: Owner,
    /// As whom its QEMU runs.
    pub(crate) user: Option<Owner>,
    /// Its monitor's socket; `None` where libvirt has the monitor.
    pub(crate) monitor: Option<PathBuf>,
}

impl PortAccess {
    /// Connects to the socket of a port, without waiting.
    pub fn connect(&self, port: &Path) -> io::Result<UnixStream> {
        let is_beside = self.is_beside(port);
        let is_daemons = self.monitor.is_none() && self.owner.is_trusted();
        let is_of_daemon = |user: Owner| is_daemons && user.is_trusted();
        let is_maker = |maker| is_beside || Some(maker) == self.user || is_of_daemon(maker);
        let is_peer = |peer| Some(peer) == self.user || peer == self.owner || is_of_daemon(peer);
        connect_if(port, is_maker, is_peer)
    }

    fn is_beside(&self, port: &Path) -> bool {
        let Some(monitor) = &self.monitor else { return false };
        let is_named_so =
            port.file_stem() == monitor.file_stem() && port.file_name() != monitor.file_name();
        let (true, Some(dir), Some(parent)) = (is_named_so, monitor.parent(), port.parent()) else {
            return false;
        };
        let (Ok(dir), Ok(parent)) = (Directory::at(dir), Directory::at(parent)) else {
            return false;
        };
        let is_closed = parent.writers == Writers::Owner && parent.owner == self.owner;
        is_closed && self.owner.is_trusted() && dir.path == parent.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::os::unix::net::UnixListener;

    /// A user who is neither root nor us.
    const OTHER: Owner = Owner(4_000_000);

    fn listen(tree: &Tree, name: &str) -> (UnixListener, PathBuf) {
        tree.file(&format!("{name}.made"), "");
        let path = tree.path().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        (listener, path)
    }

    #[test]
    fn finding_07_a_port_is_the_user_of_its_monitors_and_nobody_else_is_connected_to() {
        let tree = Tree::new();
        let (secret, path) = listen(&tree, "secret/root.sock");
        tree.file("run/README", "");
        let dir = tree.path().join("run");
        let own = Some(Owner::own());
        let opens = |owner, user, dir: Option<&Path>, port: &Path| {
            let access = PortAccess { owner, user, monitor: dir.map(|dir| dir.join("g1.qmp")) };
            access.connect(port).is_ok()
        };
        // What another user's monitor names, and what a QEMU of ours without rights does.
        assert!(!opens(OTHER, Some(OTHER), Some(&dir), &path));
        assert!(!opens(Owner::own(), Some(OTHER), Some(&dir), &path));
        assert!(!opens(OTHER, None, Some(&dir), &path));
        let link = dir.join("g1.port");
        symlink(&path, &link).unwrap();
        assert!(!opens(Owner::own(), own, Some(&dir), &link), "a link leads anywhere");
        assert!(!opens(OTHER, Some(OTHER), None, &path), "another user's libvirt");
        assert!(secret.accept().is_err(), "it was connected to before it was looked at");
        // Our own QEMU could open it as well; our libvirt's word is as good as ours.
        assert!(opens(Owner::own(), own, Some(&dir), &path));
        assert!(opens(Owner::own(), Some(OTHER), None, &path));
    }

    #[test]
    fn a_port_beside_the_monitor_is_opened_whichever_user_qemu_runs_as() {
        let tree = Tree::new();
        let (_listener, port) = listen(&tree, "run/g1.port");
        let dir = tree.path().join("run");
        let access = |dir: &Path| PortAccess {
            owner: Owner::own(),
            user: Some(OTHER),
            monitor: Some(dir.join("g1.qmp")),
        };
        assert!(access(&dir).connect(&port).is_ok());
        for other in ["g2.port", "control", "g1.qmp"] {
            let (_listener, path) = listen(&tree, &format!("run/{other}"));
            assert!(access(&dir).connect(&path).is_err(), "{other} is not its port");
        }
        assert!(access(tree.path()).connect(&port).is_err(), "it is in another directory");
        fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
        assert!(access(&dir).connect(&port).is_err(), "anybody could have put it there");
    }

    #[test]
    fn what_a_process_makes_up_is_nobodys_and_other_mounts_are_their_owners() {
        assert_eq!(Directory::at(Path::new("/proc/self/fd")).unwrap().owner, Owner::own());
        assert_eq!(Directory::at(Path::new("/sys/kernel")).unwrap().owner, Owner::ROOT);
        assert!(is_made_up(0x6573_5546) && !is_made_up(0x0102_1994), "a tmpfs is memory");
    }

    #[test]
    fn a_place_is_the_users_who_alone_controls_it() {
        let tree = Tree::new();
        let (_listener, path) = listen(&tree, "a/b/g.qmp");
        assert_eq!(of_socket(&path).unwrap(), Owner::own());
        let mode = |dir: &str, mode| {
            let dir = tree.path().join(dir);
            fs::set_permissions(dir, Permissions::from_mode(mode)).unwrap();
        };
        mode("a/b", 0o777);
        assert!(matches!(of_socket(&path), Err(Refused::Open(_))));
        mode("a/b", 0o1777);
        assert_eq!(of_socket(&path).unwrap(), Owner::own());
        mode("a/b", 0o755);
        mode("a", 0o777);
        assert!(matches!(of_socket(&path), Err(Refused::Open(_))), "all of it could be replaced");
        mode("a", 0o755);
        symlink("b", tree.path().join("a/link")).unwrap();
        symlink("../a/loop", tree.path().join("a/loop")).unwrap();
        assert_eq!(of_socket(&tree.path().join("a/link/g.qmp")).unwrap(), Owner::own());
        assert_eq!(of_socket(&tree.path().join("a/link/../b/g.qmp")).unwrap(), Owner::own());
        assert!(of_socket(&tree.path().join("a/loop/g.qmp")).is_err());
        if Owner::own() != Owner::ROOT {
            base::skipped!("only root can give a directory away");
            return;
        }
        let give = |dir: &str, owner: u32| {
            chown(tree.path().join(dir), Some(owner), Some(owner)).unwrap();
        };
        give("a", OTHER.0);
        assert_eq!(of_socket(&path).unwrap(), OTHER, "ours in another's directory is the other's");
        assert!(of_socket(&tree.path().join("a/link/g.qmp")).is_err(), "the other's link");
        give("a/b", OTHER.0 + 1);
        assert!(of_socket(&path).is_err(), "two users could have put it there");
    }
}
