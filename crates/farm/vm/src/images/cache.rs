//! Directory of everything that pinhead can fetch or make again, and of work directories.
//!
//! ```text
//!   CACHE/lock                 one process at a time fetches
//!   CACHE/packages/            Debian packages, unpacked; each is complete or absent
//!   CACHE/images/ARCH/         kernels' first file systems
//!   CACHE/disks/ARCH/          disks with Debian's servers
//!   WORK/NAME/                 a tool's work directory: created empty, removed at the end
//! ```
//!
//! Only its owner may change the cache, because the owner and the owner's guests run files from the
//! cache. WORK is `work` in the cache. For root it is `/var/cache/pinhead/work`. apt downloads as
//! another user, and a cache in root's home may be closed to that user.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::images::Error;
use crate::images::error::FileContext;
use crate::images::files::{lock_file, remove_dir};
use crate::images::ours::{check_dir, create_dir_mode};

/// Root's work directory, and the directory with the disks that root made for all users.
pub const SYSTEM: &str = "/var/cache/pinhead";

/// Mode of a directory that any user may enter, but not list.
const ENTERED: u32 = 0o711;
const PASS: u32 = 0o001;

/// Directory of everything that pinhead can fetch or make again.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Returns the cache that the user's environment names.
    pub fn from_environment() -> Result<Cache, Error> {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let root = variable("PINHEAD_CACHE")
            .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("pinhead")))
            .or_else(|| Some(variable("HOME")?.join(".cache/pinhead")))
            .ok_or(Error::NoCacheDirectory)?;
        Cache::at(root)
    }

    /// Returns the cache in this directory, which is created on the first write. A directory that
    /// another user could change is an error.
    pub fn at(root: impl Into<PathBuf>) -> Result<Cache, Error> {
        let root = root.into();
        // Tools run in other directories, where a relative path would be wrong.
        match check_dir(&root) {
            Ok(root) => Ok(Cache { root }),
            Err(source) => Err(Error::Cache { root, source: Box::new(source) }),
        }
    }

    /// Returns the cache's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a directory of the cache, which is created if needed.
    pub(crate) fn directory(&self, below: &str) -> Result<PathBuf, Error> {
        create_dir_mode(&self.root, readable())?;
        create_dir_mode(&self.root.join(below), readable())
    }

    /// Waits until no other process changes the cache, and locks the cache until the returned file
    /// is dropped.
    pub(crate) fn lock(&self) -> Result<File, Error> {
        lock_file(&self.directory("")?.join("lock"))
    }

    /// Creates a fresh work directory with this name. Waits while another process uses a directory
    /// of this name.
    pub(crate) fn work(&self, name: &str) -> Result<Work, Error> {
        let base = match is_root() {
            true => let_in(create_dir_mode(Path::new(SYSTEM), readable())?)?,
            false => self.directory("")?,
        };
        let base = let_in(create_dir_mode(&base.join("work"), ENTERED)?)?;
        let lock = lock_file(&base.join(format!("{name}.lock")))?;
        let path = base.join(name);
        // The lock is held, so a directory with that name was left by a killed process.
        remove_dir(&path)?;
        Ok(Work { path: create_dir_mode(&path, ENTERED)?, _lock: lock })
    }
}

/// Lets apt's user enter a directory that an administrator or a umask may have closed. All users
/// can then enter the directory, but not list it.
fn let_in(path: PathBuf) -> Result<PathBuf, Error> {
    let mode = fs::metadata(&path).file("look at", &path)?.permissions().mode();
    if mode & PASS == 0 {
        let mode = fs::Permissions::from_mode(mode | PASS);
        fs::set_permissions(&path, mode).file("open to apt's user", &path)?;
    }
    Ok(path)
}

/// Returns the mode for new directories. All users can read root's directories. Secret files in a
/// cache have their own modes.
fn readable() -> u32 {
    if is_root() { 0o755 } else { 0o700 }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A work directory, removed on drop.
pub(crate) struct Work {
    path: PathBuf,
    _lock: File,
}

impl Work {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // A file that cannot be removed now is removed by the next work directory with this name.
        let _ = remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_closed_lets_apts_user_pass() {
        let path = std::env::temp_dir().join(format!("images-closed-{}", std::process::id()));
        for (mode, after) in [(0o700, 0o701), (0o750, 0o751), (0o755, 0o755)] {
            create_dir_mode(&path, mode).unwrap();
            let_in(path.clone()).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, after);
            fs::remove_dir(&path).unwrap();
        }
    }
}
