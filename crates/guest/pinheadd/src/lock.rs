//! Lock that allows only one daemon in a guest, and a file with the daemon's process id for
//! scripts.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode of the lock file. Any user that may read the file could also lock it.
const MODE: u32 = 0o600;

/// Lock held for the daemon's whole life. The kernel releases the lock of a killed daemon, so that
/// the next daemon can start.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    pid_path: PathBuf,
    written: bool,
}

/// A program that may run only once, with its files.
#[derive(Debug)]
pub struct Who {
    name: &'static str,
    lock: &'static str,
    pid: &'static str,
}

/// The daemon that applies the rules.
pub const DAEMON: Who = Who { name: "pinheadd", lock: "pinheadd.lock", pid: "pinheadd.pid" };
/// The writer of records for z/VM's monitor.
pub const MONITOR: Who = Who {
    name: "pinheadd-monwriter",
    lock: "pinheadd-monwriter.lock",
    pid: "pinheadd-monwriter.pid",
};

pub fn take(run_dir: &Path, who: &Who) -> Result<Lock, String> {
    let name = who.name;
    let (path, pid_path) = (run_dir.join(who.lock), run_dir.join(who.pid));
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(MODE).open(&path);
    let file = file.map_err(|e| format!("Cannot open lock file {}: {e}", path.display()))?;
    // A daemon of an older version may have made the file readable.
    file.set_permissions(Permissions::from_mode(MODE)).map_err(|e| {
        format!("Cannot make lock file {} private to its owner: {e}", path.display())
    })?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = std::fs::read_to_string(&pid_path).unwrap_or_default();
            let who = match pid.trim() {
                "" => String::new(),
                pid => format!(" (process {pid})"),
            };
            return Err(format!(
                "Another {name} is running{who}: it has locked {0}. If there is none, `fuser {0}` \
                 shows the process that locks this file",
                path.display()
            ));
        }
        Err(TryLockError::Error(e)) => {
            return Err(format!("Cannot lock {}: {e}", path.display()));
        }
    }
    Ok(Lock { _file: file, pid_path, written: false })
}

impl Lock {
    /// Writes the daemon's process id, once the daemon runs in the background.
    pub fn write_pid(&mut self) -> Result<(), String> {
        let text = format!("{}\n", std::process::id());
        let path = &self.pid_path;
        std::fs::write(path, text)
            .map_err(|e| format!("Cannot write pid file {}: {e}", path.display()))?;
        self.written = true;
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.written {
            // The file may already be gone.
            let _ = std::fs::remove_file(&self.pid_path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::FakeKernel;

    #[test]
    fn finding2_12_only_its_owner_can_read_the_lock() {
        for before in [None, Some(0o644)] {
            let kernel = FakeKernel::new(1, 1);
            let path = kernel.path(DAEMON.lock);
            if let Some(mode) = before {
                kernel.write(DAEMON.lock, "");
                std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            }
            let dir = kernel.root();
            let _lock = take(dir.path(), &DAEMON).unwrap();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "it was {before:?}");
            let error = take(dir.path(), &DAEMON).unwrap_err();
            assert!(error.contains("Another pinheadd is running"), "{error}");
        }
    }
}
