//! The status file: what the daemon last saw and did, for scripts in the guest.

use crate::tally::{Actions, Summary};
use std::fs;
use std::io;
use std::path::PathBuf;

/// A file of `name=value` lines, written again only when something in it changes.
#[derive(Debug)]
pub struct StatusFile {
    path: PathBuf,
    last: Option<Summary>,
}

impl StatusFile {
    /// A file that is not there yet.
    pub fn new(path: PathBuf) -> StatusFile {
        StatusFile { path, last: None }
    }

    /// Writes what changed. Counters that grow by themselves are not in it: a file
    /// that changes with every look would cost more than it is worth.
    pub fn write(&mut self, summary: &Summary) -> io::Result<()> {
        if self.last.as_ref() == Some(summary) {
            return Ok(());
        }
        let Summary { cpus_online, cpus_present, pool, actions, settled, reason } = summary;
        let Actions { plugs, unplugs, grows, shrinks } = actions;
        let (pool, settled) = (pool.0, u8::from(*settled));
        let text = format!(
            "cpus_online={cpus_online}\ncpus_present={cpus_present}\npool_pages={pool}\n\
             cpu_plugs={plugs}\ncpu_unplugs={unplugs}\npool_grows={grows}\n\
             pool_shrinks={shrinks}\nsettled={settled}\nreason={reason}\n"
        );
        // Written beside and renamed: a reader sees the old one or the new one.
        let beside = self.path.with_extension("status.new");
        fs::write(&beside, &text)?;
        fs::rename(&beside, &self.path)?;
        self.last = Some(summary.clone());
        Ok(())
    }

    /// Removes it: a file that stays would show a daemon that is not there.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}
