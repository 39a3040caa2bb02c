//! Directory of the guests' sockets, in which a host manager finds the guests.
//!
//! ```text
//!   /run/pinhead/up/            (root), or $XDG_RUNTIME_DIR/pinhead/up/, or /tmp/pinhead-UID/up/
//!     .lock                     held while a directory is made or removed
//!     PID/  lock                held as long as the process lives
//!           g1.qmp  g1.port
//!           control             the control socket
//!           farm                the farm's name, if there is a farm's file
//!           rules-only          present if no manager of another farm may have the guests
//! ```
//!
//! The kernel releases a process's lock, however the process ends. The next start therefore
//! recognises abandoned directories and removes them.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use vm::images;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Error;

/// File in a process's directory that the process keeps locked.
const LOCK: &str = "lock";
/// File with the farm's name, if the farm has a name.
const NAME: &str = "farm";
/// Mode of the directory above, which other users may enter.
const ENTERED: u32 = 0o755;

/// The directory of this process, which is removed on drop.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    base: PathBuf,
    _lock: File,
}

impl RunDir {
    /// Removes the directories of processes that are gone, and then creates this process's
    /// directory with the farm's name in it.
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

    /// Leaves the guests' memory to their own rules. Managers of other farms do not take the
    /// guests, but `pinhead host` does.
    pub fn leave_to_rules(&self) -> io::Result<()> {
        fs::write(self.path.join(qmp::RULES_ONLY), "")
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Without the lock, another start might treat a half removed directory as abandoned. Files
        // that cannot be removed now are removed by the next start.
        let _alone = alone(&self.base);
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns the directories of this user's running processes, with their process ids.
pub fn living() -> Result<Vec<(u32, PathBuf)>, Error> {
    let base = base().map_err(Error::Unseen)?;
    // The check locks each directory for a moment. The common lock keeps other processes from
    // locking their own directories in that moment.
    let _alone = alone(&base).map_err(Error::Unseen)?;
    let mut found: Vec<_> = dirs(&base).filter(|(_, path)| !is_dead(path)).collect();
    found.sort();
    Ok(found)
}

/// Returns a pidfd of the process with this id, if that process holds the lock of the socket's
/// directory. `None` means that no process holds the lock.
///
/// The lock is checked after the pidfd was opened. A lock that is held then proves that the pidfd
/// refers to the lock's holder. If the lock is held but no pidfd can be opened, as in a sandbox or
/// on an old kernel, the function returns an error.
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

/// Returns the farm's name from its directory.
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
    // Only processes of the same user hold this lock, each for a few system calls.
    lock.lock()?;
    Ok(lock)
}

fn sweep(base: &Path) {
    for (_, path) in dirs(base).filter(|(_, path)| is_dead(path)) {
        let _ = fs::remove_dir_all(path);
    }
}

/// Returns the directories of all processes, running or not, with their ids.
fn dirs(base: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

/// Returns true if no process holds the directory's lock. A directory without a lock file was never
/// completed.
fn is_dead(path: &Path) -> bool {
    match File::open(path.join(LOCK)) {
        Ok(lock) => !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns the directory that contains the directories of this user's processes. A missing
/// directory is created.
pub fn base() -> io::Result<PathBuf> {
    base_in(&manager::config::own_dir()?).map_err(|error| io::Error::other(base::chain(&error)))
}

/// Creates the directory in `top`. Other users may enter `top`, because it also contains the
/// manager's socket, and a group may have access to this socket. The directory in `top` is closed.
/// Otherwise other users could hold its lock.
fn base_in(top: &Path) -> Result<PathBuf, images::Error> {
    images::create_dir(&images::create_dir_mode(top, ENTERED)?.join("up"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn others_may_enter_only_the_directory_of_the_managers_socket() {
        let place = vm::Scratch::new("modes").unwrap();
        let top = place.join("pinhead");
        let base = base_in(&top).unwrap();
        let own = RunDir::below(&base, 1).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!([&*top, &base, own.path()].map(mode), [0o755, 0o700, 0o700]);
    }

    #[test]
    fn abandoned_directories_are_removed_and_live_ones_kept() {
        let base = vm::Scratch::new("rundir").unwrap();
        let living = RunDir::below(base.path(), 1).unwrap();
        for dead in ["2", "3", "not-a-pid"] {
            fs::create_dir(base.join(dead)).unwrap();
        }
        fs::write(base.join("2/lock"), "").unwrap();
        fs::write(base.join("2/g1.qmp"), "").unwrap();
        let next = RunDir::below(base.path(), 2).unwrap();
        assert!(living.path().exists() && !base.join("3").exists());
        assert!(base.join("not-a-pid").exists() && !next.path().join("g1.qmp").exists());
        assert!(RunDir::below(base.path(), 1).is_err(), "another process holds it");
        assert_eq!(fs::metadata(next.path()).unwrap().mode() & 0o777, 0o700);
        drop((living, next));
        assert!(!base.join("1").exists() && !base.join("2").exists());
    }
}
