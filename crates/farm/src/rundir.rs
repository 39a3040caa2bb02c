//! A directory of the guests' sockets, so that a host manager finds guests that we started.
//!
//! ```text
//!   /run/pinhead/up/            (root), or $XDG_RUNTIME_DIR/pinhead/up/, or /tmp/pinhead-UID/up/
//!     .lock                     held while a directory is made or removed
//!     PID/  lock                held as long as the process lives
//!           g1.qmp  g1.port
//!           control             the socket where the process is asked
//!           farm                the farm's name, if the guests are one
//! ```
//!
//! The kernel lets go of a lock however its process ends. So the next start sees which
//! directories nobody owns any more, and removes them.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Error;

/// What a process holds in its own directory.
const LOCK: &str = "lock";
/// Where the farm's name stands, if it is one.
const NAME: &str = "farm";

/// The directory of this process. Dropping it removes it.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    base: PathBuf,
    _lock: File,
}

impl RunDir {
    /// Makes this process's directory, after removing those whose processes are gone. A farm's has
    /// its name in it.
    pub fn create(farm: Option<&str>) -> io::Result<RunDir> {
        let dir = RunDir::below(&base()?, std::process::id())?;
        farm.map_or(Ok(()), |name| fs::write(dir.path.join(NAME), name))?;
        Ok(dir)
    }

    fn below(base: &Path, pid: u32) -> io::Result<RunDir> {
        let _alone = alone(base)?;
        sweep(base);
        let path = base.join(pid.to_string());
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::create(path.join(LOCK))?;
        lock.try_lock().map_err(io::Error::from)?;
        Ok(RunDir { path, base: base.to_path_buf(), _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Alone, or a start might take the half that is left for a dead one's. What cannot be
        // removed now goes with the next start.
        let _alone = alone(&self.base);
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The directories of this user's processes that run now, with their process ids.
pub fn living() -> Result<Vec<(u32, PathBuf)>, Error> {
    let base = base().map_err(Error::Unseen)?;
    // Alone, or a process that is about to lock its directory would find it locked by us.
    let _alone = alone(&base).map_err(Error::Unseen)?;
    let mut found: Vec<_> = dirs(&base).filter(|(_, path)| !is_dead(path)).collect();
    found.sort();
    Ok(found)
}

/// A descriptor of the process of this number, if it holds the directory that this socket is in.
/// The lock is looked at last: until then the number was the process's own, and from then on the
/// descriptor means it and no other. `None`: nobody holds it. A directory that is held by a
/// process without a descriptor, as where a sandbox or an old kernel gives none, is an error.
pub fn holder(pid: u32, socket: &Path) -> io::Result<Option<OwnedFd>> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH);
    let process = number.and_then(|number| pidfd_open(number, PidfdFlags::empty()));
    let dir = socket.parent().ok_or(Errno::NOENT)?;
    let _alone = alone(dir.parent().ok_or(Errno::NOENT)?)?;
    match is_dead(dir) {
        true => Ok(None),
        false => Ok(Some(process?)),
    }
}

/// The name of the farm whose directory this is.
pub fn farm_name(dir: &Path) -> Option<String> {
    fs::read_to_string(dir.join(NAME)).ok()
}

/// Removes the directories of processes that are gone.
pub fn sweep_all() {
    if let Ok(base) = base()
        && let Ok(_alone) = alone(&base)
    {
        sweep(&base);
    }
}

fn alone(base: &Path) -> io::Result<File> {
    let lock = File::options().create(true).truncate(false).write(true).open(base.join(".lock"))?;
    // Held for a few system calls by each of our own user's processes only.
    lock.lock()?;
    Ok(lock)
}

fn sweep(base: &Path) {
    for (_, path) in dirs(base).filter(|(_, path)| is_dead(path)) {
        let _ = fs::remove_dir_all(path);
    }
}

/// The directories of processes, with their ids, whether the processes run or not.
fn dirs(base: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

/// Whether nobody holds a directory's lock. One without a lock was left half made.
fn is_dead(path: &Path) -> bool {
    match File::open(path.join(LOCK)) {
        Ok(lock) => !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Where the directories of this user's processes are; made if it is not there.
pub fn base() -> io::Result<PathBuf> {
    let top = manager::config::own_dir()?;
    // It may be open to others to read or enter: the directories below are closed to them.
    images::create_dir(&top.join("up")).map_err(|error| io::Error::other(base::chain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn temporary(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("pinhead-rundir-{name}-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        path
    }

    #[test]
    fn the_dead_are_removed_and_the_living_are_not() {
        let base = temporary("sweep");
        let living = RunDir::below(&base, 1).unwrap();
        for dead in ["2", "3", "not-a-pid"] {
            fs::create_dir(base.join(dead)).unwrap();
        }
        fs::write(base.join("2/lock"), "").unwrap();
        fs::write(base.join("2/g1.qmp"), "").unwrap();
        let next = RunDir::below(&base, 2).unwrap();
        assert!(living.path().exists() && !base.join("3").exists());
        assert!(base.join("not-a-pid").exists() && !next.path().join("g1.qmp").exists());
        assert!(RunDir::below(&base, 1).is_err(), "it is another's");
        assert_eq!(fs::metadata(next.path()).unwrap().mode() & 0o777, 0o700);
        drop((living, next));
        assert!(!base.join("1").exists() && !base.join("2").exists());
        fs::remove_dir_all(base).unwrap();
    }
}
