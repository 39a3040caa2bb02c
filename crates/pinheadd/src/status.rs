//! The status file: what the daemon last saw and did, for scripts in the guest.

use std::fs;
use std::io;
use std::path::PathBuf;
use wire::Status;

/// A file of `name=value` lines, written anew only when something in it changes.
#[derive(Debug)]
pub struct StatusFile {
    path: PathBuf,
    last: String,
}

impl StatusFile {
    /// A file that is not there yet.
    pub fn new(path: PathBuf) -> StatusFile {
        StatusFile { path, last: String::new() }
    }

    /// Writes what changed. Counters that grow by themselves are left out: a file
    /// that changes with every look would cost more than it tells.
    pub fn write(&mut self, status: &Status) -> io::Result<()> {
        let text = format!(
            "cpus_online={}\ncpus_present={}\npool_pages={}\ncpu_plugs={}\ncpu_unplugs={}\n\
             pool_grows={}\npool_shrinks={}\nsettled={}\nreason={}\n",
            status.cpus_online,
            status.cpus_present,
            status.pool_pages,
            status.plugs,
            status.unplugs,
            status.grows,
            status.shrinks,
            u8::from(status.settled),
            status.reason
        );
        if text != self.last {
            // Written beside and renamed: a reader sees the old one or the new one.
            let beside = self.path.with_extension("status.new");
            fs::write(&beside, &text)?;
            fs::rename(&beside, &self.path)?;
            self.last = text;
        }
        Ok(())
    }

    /// Removes it: a file that stays would tell of a daemon that is not there.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}
