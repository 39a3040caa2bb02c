//! Files and directories that are safe to work with, because no other user can change them.
//!
//! If another user can replace a file, a program that uses the file acts for that user, with the
//! program's own rights. A path is therefore followed here part by part, from `/`:
//!
//! ```text
//!   /  tmp  x  cache           each part is ours or root's, and no other may write to it;
//!      │                       the last part must be ours
//!      └ sticky: others may add to it, but not replace what is ours
//! ```
//!
//! A part that is writable for the user's private group counts as private. A part that is writable
//! for root's group does not count as private.
//!
//! A link is checked like a file, because the link's owner determines its target. A part that was
//! found safe stays safe, because no other user can change the path to it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use crate::images::Error;
use crate::images::accounts::is_private_group;
use crate::images::error::FileContext;

/// Maximum number of links that are followed, as in Linux.
const LINKS_MAX: usize = 40;

/// Mode bits that let other users add, remove and rename files in a directory.
const OTHERS_WRITE: u32 = 0o022;
const GROUP_WRITES: u32 = 0o020;
/// The directory of the system's lists of users and groups.
const ETC: &str = "/etc";
/// Mode bit of a directory in which users cannot remove or rename files of others.
const STICKY: u32 = 0o1000;

/// Creates a private directory, and its missing parents. Refuses a directory that another user
/// owns, may write to, or could replace. Returns the directory's path without links.
pub fn create_dir(path: &Path) -> Result<PathBuf, Error> {
    create_dir_mode(path, 0o700)
}

/// Does the same as [`create_dir`], for a directory that other users may enter or read.
pub fn create_dir_mode(path: &Path, mode: u32) -> Result<PathBuf, Error> {
    loop {
        let found = follow(path, own_uid())?;
        let Some(missing) = found.missing.first() else {
            return found.own_dir(path, own_uid());
        };
        let next = found.at.join(missing);
        match DirBuilder::new().mode(mode).create(&next) {
            // Another process of this user, or another user, has created the directory. The next
            // turn of the loop checks it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // The mode must not depend on the umask, because the user `_apt` may have to enter the
            // directory.
            made => {
                let mode = fs::Permissions::from_mode(mode);
                made.and_then(|()| fs::set_permissions(&next, mode)).file("create", next)?;
            }
        }
    }
}

/// Checks a directory that may not exist yet. All existing parts of the path must be private.
/// Returns the directory's path without links.
pub fn check_dir(path: &Path) -> Result<PathBuf, Error> {
    let found = follow(path, own_uid())?;
    match found.missing.is_empty() {
        true => found.own_dir(path, own_uid()),
        false => Ok(found.missing.iter().fold(found.at, |at, part| at.join(part))),
    }
}

/// Checks a file for reading. The file must belong to this user or to root, and no other user may
/// change or replace it. Returns the file's path without links.
pub fn check_file(path: &Path) -> Result<PathBuf, Error> {
    check(path, FileType::is_file, "it is no ordinary file")
}

/// Does the same as [`check_file`], for a disk image, which may be a block device.
pub(crate) fn check_disk(path: &Path) -> Result<PathBuf, Error> {
    let is_disk = |kind: &FileType| kind.is_file() || kind.is_block_device();
    check(path, is_disk, "it is neither an ordinary file nor a block device")
}

fn check(path: &Path, is_fit: impl Fn(&FileType) -> bool, unfit: &str) -> Result<PathBuf, Error> {
    let found = follow(path, own_uid())?;
    if !found.missing.is_empty() {
        return Err(io::Error::from(io::ErrorKind::NotFound)).file("find", path);
    }
    match is_fit(&found.last.file_type()) {
        true => Ok(found.at),
        false => Err(not_ours(&found.at, unfit.to_owned())),
    }
}

/// Opens a lock file, which is created if needed. A link is not followed.
pub(crate) fn open_lock(path: &Path) -> Result<File, Error> {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = File::options();
    options.create(true).append(true).mode(0o600).custom_flags(no_link);
    options.open(path).file("open", path)
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The existing and the missing part of a path.
struct Found {
    /// The last part that exists, without links.
    at: PathBuf,
    last: Metadata,
    missing: Vec<OsString>,
}

impl Found {
    fn own_dir(self, path: &Path, uid: u32) -> Result<PathBuf, Error> {
        if !self.last.is_dir() {
            return Err(not_ours(path, "it is no directory".to_owned()));
        }
        if self.last.uid() != uid {
            return Err(foreign(&self.at, self.last.uid(), uid));
        }
        match may_others_write(&self.last, uid, Path::new(ETC)) {
            false => Ok(self.at),
            true => Err(open_to_others(&self.at, &self.last)),
        }
    }
}

/// Follows a path to the last part that exists, and refuses parts that another user could change.
fn follow(path: &Path, uid: u32) -> Result<Found, Error> {
    let mut at = PathBuf::from("/");
    let mut last = look(&at, uid)?;
    let mut links = 0;
    let absolute = std::path::absolute(path).file("find", path)?;
    let mut left = parts(&absolute);
    while let Some(part) = left.pop() {
        if part == ".." {
            // `at` contains no links, so this is the parent directory.
            at.pop();
            last = look(&at, uid)?;
            continue;
        }
        let next = at.join(&part);
        let data = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                left.push(part);
                left.reverse();
                if left.iter().any(|part| part == "..") {
                    return Err(error).file("find", next);
                }
                return Ok(Found { at, last, missing: left });
            }
            other => other.file("look at", &next)?,
        };
        if !data.is_symlink() {
            last = look(&next, uid)?;
            at = next;
            continue;
        }
        links += 1;
        if data.uid() != uid && data.uid() != 0 {
            return Err(foreign(&next, data.uid(), uid));
        }
        if links > LINKS_MAX {
            return Err(not_ours(path, "the path has too many symbolic links".to_owned()));
        }
        let target = fs::read_link(&next).file("read", &next)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        left.extend(parts(&target));
    }
    Ok(Found { at, last, missing: Vec::new() })
}

fn parts(path: &Path) -> Vec<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        _ => None,
    };
    path.components().rev().filter_map(name).collect()
}

/// Checks a part of a path that is not a link. The part must belong to this user or to root. Other
/// users may write to it only if it is a directory in which they cannot replace this user's files.
fn look(at: &Path, uid: u32) -> Result<Metadata, Error> {
    let data = fs::symlink_metadata(at).file("look at", at)?;
    if data.uid() != uid && data.uid() != 0 {
        return Err(foreign(at, data.uid(), uid));
    }
    let is_shared = data.is_dir() && data.mode() & STICKY != 0;
    match !is_shared && may_others_write(&data, uid, Path::new(ETC)) {
        true => Err(open_to_others(at, &data)),
        false => Ok(data),
    }
}

/// Returns true if users other than the file's owner and root may write to the file.
fn may_others_write(data: &Metadata, uid: u32, etc: &Path) -> bool {
    match data.mode() & OTHERS_WRITE {
        GROUP_WRITES if uid != 0 && data.uid() == uid => !is_private_group(etc, uid, data.gid()),
        // Block devices are writable for their group `disk`, which may write to all disks of the
        // host anyway.
        GROUP_WRITES if data.file_type().is_block_device() => false,
        bits => bits != 0,
    }
}

fn foreign(path: &Path, owner: u32, uid: u32) -> Error {
    let reason =
        format!("it belongs to user {owner}, who could replace files that user {uid} uses");
    not_ours(path, reason)
}

fn open_to_others(path: &Path, data: &Metadata) -> Error {
    let mode = data.mode() & 0o7777;
    not_ours(path, format!("others may write to it (mode {mode:04o}): `chmod go-w` it"))
}

fn not_ours(path: &Path, reason: String) -> Error {
    Error::NotOurs { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;
    use std::os::unix::fs::{chown, symlink};

    struct Place(Scratch);

    impl Place {
        fn new(name: &str) -> Place {
            Place(Scratch::new(&format!("images-{name}")).unwrap())
        }

        fn dir(&self, path: &str, mode: u32) -> PathBuf {
            let path = self.0.join(path);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    fn refusal(result: Result<PathBuf, Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn missing_directories_are_created_private() {
        let place = Place::new("made");
        let made = create_dir(&place.0.join("a/./b")).unwrap();
        assert_eq!(made, fs::canonicalize(place.0.path()).unwrap().join("a/b"));
        for path in ["a", "a/b"] {
            assert_eq!(fs::metadata(place.0.join(path)).unwrap().mode() & 0o777, 0o700);
        }
        assert_eq!(check_dir(&made).unwrap(), made);
        assert!(check_dir(&place.0.join("c/d")).unwrap().ends_with("c/d"));
        assert!(!place.0.join("c").exists());
    }

    #[test]
    fn finding_01_parts_that_others_may_write_to_are_refused() {
        let place = Place::new("modes");
        let modes = [0o770, 0o707, 0o777];
        // A private group of this user.
        let data = fs::metadata(place.0.path()).unwrap();
        let skipped =
            usize::from(own_uid() != 0 && is_private_group(Path::new(ETC), data.uid(), data.gid()));
        for mode in modes.into_iter().skip(skipped) {
            let open = place.dir("open", mode);
            let inner = place.dir("open/inner", 0o700);
            for path in [&open, &inner, &open.join("new")] {
                let message = refusal(create_dir(path));
                assert!(message.contains("open is not safe to use: others may"), "{message}");
            }
            assert!(!open.join("new").exists());
        }
        // The directory is like /tmp, where only a file's owner can replace the file.
        let shared = place.dir("shared", 0o1777);
        assert!(refusal(create_dir(&shared)).contains("mode 1777"));
        create_dir(&shared.join("mine")).unwrap();
    }

    #[test]
    fn a_group_in_which_only_the_user_is_may_write() {
        let place = Place::new("private");
        let etc = place.dir("etc", 0o700);
        let dir = place.dir("dir", 0o775);
        // A directory that root's group may write to is refused, so root checks as another user.
        let (uid, gid) = match own_uid() {
            0 => (12_345, 12_346),
            uid => (uid, fs::metadata(&dir).unwrap().gid()),
        };
        if own_uid() == 0 {
            chown(&dir, Some(uid), Some(gid)).unwrap();
        }
        fs::write(etc.join("passwd"), format!("me:x:{uid}:{gid}::/:/bin/sh\n")).unwrap();
        fs::write(etc.join("group"), format!("me:x:{gid}:\n")).unwrap();
        let may_others = |mode: u32, uid: u32| {
            place.dir("dir", mode);
            may_others_write(&fs::metadata(&dir).unwrap(), uid, &etc)
        };
        assert!(!may_others(0o755, uid) && !may_others(0o775, uid));
        assert!(may_others(0o777, uid) && may_others(0o757, uid));
        assert!(may_others(0o775, uid + 1) && may_others(0o775, 0));
        fs::write(etc.join("group"), format!("me:x:{gid}:you\n")).unwrap();
        assert!(may_others(0o775, uid));
    }

    #[test]
    fn finding_01_links_lead_to_what_is_checked_like_the_rest() {
        let place = Place::new("links");
        let open = place.dir("open", 0o777);
        symlink(&open, place.0.join("link")).unwrap();
        assert!(refusal(create_dir(&place.0.join("link/x"))).contains("open is not safe"));
        let good = place.dir("good", 0o700);
        symlink("../good", good.join("up")).unwrap();
        assert!(create_dir(&good.join("up/../good/x")).unwrap().ends_with("good/x"));
        symlink("round", place.0.join("round")).unwrap();
        assert!(refusal(check_dir(&place.0.join("round"))).contains("too many symbolic links"));
    }

    #[test]
    fn finding_01_another_users_dirs_links_and_files_are_refused() {
        let place = Place::new("foreign");
        let dir = place.dir("dir", 0o755);
        let (link, file) = (place.0.join("link"), place.0.join("file"));
        fs::write(&file, "").unwrap();
        assert_eq!(check_file(&file).unwrap(), fs::canonicalize(&file).unwrap());
        symlink(place.dir("mine", 0o700), &link).unwrap();
        let uid = own_uid();
        if uid != 0 {
            // The files belong to this user, so the check runs as another user.
            let message = follow(&dir, uid + 1).err().unwrap().to_string();
            assert!(message.contains(&format!("belongs to user {uid}, who")), "{message}");
        } else {
            for path in [&dir, &file] {
                chown(path, Some(65_534), None).unwrap();
            }
            std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
            for result in [create_dir(&dir), create_dir(&dir.join("x")), check_dir(&link)] {
                assert!(refusal(result).contains("it belongs to user 65534"));
            }
            assert!(refusal(check_file(&file)).contains("it belongs to user 65534"));
            assert!(!dir.join("x").exists());
        }
        assert!(refusal(check_file(place.0.path())).contains("no ordinary file"));
    }

    #[test]
    fn finding_01_a_lock_that_is_a_link_is_not_followed() {
        let place = Place::new("lock");
        let (lock, made) = (place.0.join("lock"), place.0.join("made"));
        symlink(&made, &lock).unwrap();
        assert!(refusal(open_lock(&lock).map(|_| made.clone())).contains("Cannot open"));
        assert!(!made.exists());
        open_lock(&place.0.join("other")).unwrap();
    }
}
