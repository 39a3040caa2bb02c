//! Ownership of guests. The owner is the only user that controls the place of the monitor's socket.
//!
//! ```text
//!   /run/pinhead/up/7/g1.qmp            root's, whichever user QEMU itself runs as
//!   /run/user/1000/pinhead/up/7/g1.qmp  user 1000's
//!   /tmp/g1.qmp                         its creator's: no other user may replace it (sticky)
//!   /srv/open/g1.qmp, anybody writes    nobody's: any user could have put it there
//! ```
//!
//! Claims of the guest or its QEMU about the owner are ignored, because a user controls these
//! programs. A PID does not prove ownership either. This process may manage guests of root and of
//! its own user. It manages another user's guests only if that user is named.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Limit of symbolic links on the way to one directory.
const LINKS_MAX: u32 = 8;
/// Mode bit of a directory in which a user may only replace entries that the user owns.
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// Type that statfs reports for a file system served by a process (FUSE).
const FUSE: u32 = 0x6573_5546;

/// A user with guests, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u32);

impl Owner {
    pub const ROOT: Owner = Owner(0);

    /// Returns the user of this process.
    pub fn own() -> Owner {
        Owner(rustix::process::geteuid().as_raw())
    }

    /// Returns the owner of all entries of a directory, if only this user and root may write there.
    pub fn of_directory(path: &Path) -> Option<Owner> {
        Directory::at(path).ok()?.owner_of_all()
    }

    /// Returns true for root and the process's own user, which control this process anyway.
    pub fn is_trusted(self) -> bool {
        self == Owner::ROOT || self == Owner::own()
    }
}

/// The users with managed guests: root, the user of this process, and the named ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    named: BTreeSet<Owner>,
}

impl Trust {
    /// Creates a trust that also covers the named users.
    pub fn naming(named: impl IntoIterator<Item = Owner>) -> Trust {
        Trust { named: named.into_iter().collect() }
    }

    /// Returns true if this user's guests are managed.
    pub fn covers(&self, owner: Owner) -> bool {
        owner.is_trusted() || self.named.contains(&owner)
    }
}

/// Reason why a place has no owner, or cannot be examined.
#[derive(Debug)]
pub(crate) enum Refused {
    Io(io::Error),
    /// Any user may write to this directory.
    Open(PathBuf),
    /// Two users other than root may change the place, or another user controls a link on its path.
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

/// Users, except root, that may create, remove and replace entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writers {
    Owner,
    /// Any user may create an entry, but only the entry's owner may replace it.
    EachTheirOwn,
    Anybody,
}

/// A directory, by its path without links, and the user that controls this path.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    pub(crate) owner: Owner,
    writers: Writers,
    /// Device number of the directory's file system.
    device: u64,
}

enum Entry {
    Directory(Directory),
    Link(PathBuf),
}

impl Directory {
    pub(crate) fn top() -> Result<Directory, Refused> {
        let found = fs::metadata("/")?;
        let (owner, writers, device) = (Owner(found.uid()), writers(&found), found.dev());
        Ok(Directory { path: "/".into(), owner, writers, device })
    }

    /// Returns the directory at an absolute path. Links are followed only if no user but root and
    /// the user of this process can change them.
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

    pub(crate) fn enter(&self, name: &OsStr) -> Result<Directory, Refused> {
        match self.look(name)? {
            Entry::Directory(next) => Ok(next),
            Entry::Link(target) => Directory::at(&self.path.join(target)),
        }
    }

    /// Returns the owner of all entries of this directory. `None` means that each entry belongs to
    /// the user that created it.
    pub(crate) fn owner_of_all(&self) -> Option<Owner> {
        (self.writers == Writers::Owner).then_some(self.owner)
    }

    /// Returns the owner and the inode of a socket in this directory.
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
        // The owner of a directory may change its mode and its entries.
        let owner = joint(owner, Owner(found.uid())).ok_or(Refused::Disputed)?;
        let (writers, device) = (writers(&found), found.dev());
        Ok(Entry::Directory(Directory { path, owner, writers, device }))
    }

    /// Returns the user that may have created this entry of the directory.
    fn entry_owner(&self, entry: &Metadata) -> Result<Owner, Refused> {
        match self.writers {
            Writers::Owner => Ok(self.owner),
            Writers::EachTheirOwn => joint(self.owner, Owner(entry.uid())).ok_or(Refused::Disputed),
            Writers::Anybody => Err(Refused::Open(self.path.clone())),
        }
    }
}

/// Returns the metadata of a directory that may be a mount point. Any user may mount a FUSE file
/// system, and the file system may claim that root owns it. Such a place has no owner.
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

/// Returns the user in control of two places, if only this user and root control them.
fn joint(one: Owner, other: Owner) -> Option<Owner> {
    match (one, other) {
        (one, other) if one == other || other == Owner::ROOT => Some(one),
        (Owner::ROOT, other) => Some(other),
        _ => None,
    }
}

fn writers(directory: &Metadata) -> Writers {
    let mode = directory.mode();
    // Many systems give each user a group of the same number without other members.
    let own_group = directory.gid() == directory.uid() && directory.uid() != Owner::ROOT.0;
    let by_group = mode & GROUP_WRITES != 0 && !own_group;
    match mode & OTHERS_WRITE != 0 || by_group {
        false => Writers::Owner,
        true if mode & STICKY != 0 => Writers::EachTheirOwn,
        true => Writers::Anybody,
    }
}

/// Returns the parts of a path in reverse order.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    parts.collect()
}

pub(crate) fn of_socket(path: &Path) -> Result<Owner, Refused> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Refused::Disputed);
    };
    Ok(Directory::at(parent)?.socket(name)?.0)
}

/// Connects to a socket of `owner`, without waiting. An untrusted owner may have replaced the path
/// since the check. Such an owner must therefore have created the socket and listen on it.
pub fn connect(path: &Path, owner: Owner) -> io::Result<UnixStream> {
    match owner.is_trusted() {
        true => reactor::connect(path),
        false => connect_if(path, |maker| maker == owner, |peer| peer == owner),
    }
}

/// Connects to a socket if its creator, and then its listener, pass the checks. The socket is
/// pinned before the checks, so a change of the path cannot lead to another creator's socket.
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

/// Returns the user of the process that listened at the other end.
pub(crate) fn peer(stream: &UnixStream) -> io::Result<Owner> {
    Ok(Owner(reactor::peer(stream)?.uid))
}

/// Rules for the sockets that may be opened as a guest's port because a monitor or libvirt named
/// them.
///
/// Three kinds of sockets are accepted:
/// - A socket of the user that QEMU runs as, because QEMU could connect to the socket as well.
/// - A socket in the directory of the monitor, if the guest's owner controls the directory. The
///   socket's name may differ from the monitor's only in the ending (`g1.port` and `g1.qmp`),
///   because other names belong to other guests.
/// - A socket of root, if libvirt has named it.
///
/// With any other socket, a user could make root open a socket that the user may not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAccess {
    pub(crate) owner: Owner,
    /// User that the guest's QEMU runs as.
    pub(crate) user: Option<Owner>,
    /// Path of the monitor's socket; `None` if libvirt has the monitor.
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
    use procfs::testing::Tree;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::os::unix::net::UnixListener;

    /// A user that is neither root nor the user of this process.
    const OTHER: Owner = Owner(4_000_000);

    fn listen(tree: &Tree, name: &str) -> (UnixListener, PathBuf) {
        tree.file(&format!("{name}.made"), "");
        let path = tree.path().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        (listener, path)
    }

    #[test]
    fn finding_07_port_of_another_user_is_never_connected_to() {
        let tree = Tree::create();
        let (secret, path) = listen(&tree, "secret/root.sock");
        tree.file("run/README", "");
        let dir = tree.path().join("run");
        let own = Some(Owner::own());
        let opens = |owner, user, dir: Option<&Path>, port: &Path| {
            let access = PortAccess { owner, user, monitor: dir.map(|dir| dir.join("g1.qmp")) };
            access.connect(port).is_ok()
        };
        // The socket is named by another user's monitor, by this user's QEMU that runs as another
        // user, or by an unknown user's QEMU.
        assert!(!opens(OTHER, Some(OTHER), Some(&dir), &path));
        assert!(!opens(Owner::own(), Some(OTHER), Some(&dir), &path));
        assert!(!opens(OTHER, None, Some(&dir), &path));
        let link = dir.join("g1.port");
        symlink(&path, &link).unwrap();
        assert!(!opens(Owner::own(), own, Some(&dir), &link), "a link leads anywhere");
        assert!(!opens(OTHER, Some(OTHER), None, &path), "another user's libvirt");
        assert!(secret.accept().is_err(), "connected before the check");
        // This user's QEMU could open the socket as well, and this user's libvirt is trusted.
        assert!(opens(Owner::own(), own, Some(&dir), &path));
        assert!(opens(Owner::own(), Some(OTHER), None, &path));
    }

    #[test]
    fn port_next_to_monitor_opens_for_any_qemu_user() {
        let tree = Tree::create();
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
        assert!(access(&dir).connect(&port).is_err(), "any user could have put it there");
    }

    #[test]
    fn fuse_mount_has_no_owner_and_other_mounts_do() {
        assert_eq!(Directory::at(Path::new("/proc/self/fd")).unwrap().owner, Owner::own());
        assert_eq!(Directory::at(Path::new("/sys/kernel")).unwrap().owner, Owner::ROOT);
        assert!(is_made_up(0x6573_5546) && !is_made_up(0x0102_1994), "a tmpfs is memory");
    }

    #[test]
    fn place_belongs_to_the_only_user_in_control() {
        let tree = Tree::create();
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
        assert!(matches!(of_socket(&path), Err(Refused::Open(_))), "the way is open to all");
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
        assert_eq!(of_socket(&path).unwrap(), OTHER, "our file in another user's directory");
        assert!(of_socket(&tree.path().join("a/link/g.qmp")).is_err(), "a link of the other user");
        give("a/b", OTHER.0 + 1);
        assert!(of_socket(&path).is_err(), "two users could have put it there");
    }
}
