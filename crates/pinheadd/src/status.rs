//! The status file: what the daemon last saw and did, for scripts in the guest.

use std::fs;
use std::io;
use std::path::PathBuf;
use wire::Status;

/// A file of `name=value` lines, written anew only when something in it changes.
#[derive(Debug)]
pub struct StatusFile {
    path: PathBuf,
    last: Option<Status>,
}

impl StatusFile {
    /// A file that is not there yet.
    pub fn new(path: PathBuf) -> StatusFile {
        StatusFile { path, last: None }
    }

    /// Writes what changed. Counters that grow by themselves are left out: a file
    /// that changes with every look would cost more than it tells.
    pub fn write(&mut self, status: &Status) -> io::Result<()> {
        if self.last.as_ref().is_some_and(|last| shown(last) == shown(status)) {
            return Ok(());
        }
        let (online, present, pool, [plugs, unplugs, grows, shrinks], settled, reason) =
            shown(status);
        let settled = u8::from(settled);
        let text = format!(
            "cpus_online={online}\ncpus_present={present}\npool_pages={pool}\n\
             cpu_plugs={plugs}\ncpu_unplugs={unplugs}\npool_grows={grows}\n\
             pool_shrinks={shrinks}\nsettled={settled}\nreason={reason}\n"
        );
        // Written beside and renamed: a reader sees the old one or the new one.
        let beside = self.path.with_extension("status.new");
        fs::write(&beside, &text)?;
        fs::rename(&beside, &self.path)?;
        self.last = Some(status.clone());
        Ok(())
    }

    /// Removes it: a file that stays would tell of a daemon that is not there.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What the file shows of a status.
fn shown(s: &Status) -> (u32, u32, u64, [u32; 4], bool, &str) {
    let counts = [s.plugs, s.unplugs, s.grows, s.shrinks];
    (s.cpus_online, s.cpus_present, s.pool_pages, counts, s.settled, &s.reason)
}
