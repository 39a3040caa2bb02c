//! The status file: the daemon's last observations and actions, for scripts in the guest.

use crate::guestmon::Rules;
use crate::tally::{Actions, Summary};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const NAME: &str = "pinheadd.status";

/// A file of `name=value` lines, rewritten only when a value changes.
#[derive(Debug)]
pub struct StatusFile {
    path: PathBuf,
    last: Option<Summary>,
}

impl StatusFile {
    /// Creates the writer, but not the file. The first summary creates the file.
    pub fn new(run_dir: &Path) -> StatusFile {
        StatusFile { path: run_dir.join(NAME), last: None }
    }

    /// Writes the summary if it has changed. The summary contains no counters that always grow,
    /// because they would change the file with every sample.
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
        // The file is written under another name and renamed, so that every reader sees a complete
        // file.
        let beside = self.path.with_extension("status.new");
        fs::write(&beside, &text)?;
        fs::rename(&beside, &self.path)?;
        self.last = Some(summary.clone());
        Ok(())
    }

    /// Removes the file, which would otherwise describe a daemon that no longer runs.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the rules' actions from the file of a running daemon; `None` without a file.
pub fn rules(run_dir: &Path) -> Option<Rules> {
    let text = fs::read_to_string(run_dir.join(NAME)).ok()?;
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value)
    };
    let number = |name| value(name)?.parse().ok();
    Some(Rules {
        plugs: number("cpu_plugs")?,
        unplugs: number("cpu_unplugs")?,
        grows: number("pool_grows")?,
        shrinks: number("pool_shrinks")?,
        is_settled: value("settled")? == "1",
        reason: value("reason")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Actions;
    use base::Pages;

    #[test]
    fn written_status_is_read_back() {
        let dir = procfs::testing::Tree::create();
        let mut file = StatusFile::new(&dir);
        assert_eq!(rules(&dir), None);
        file.write(&Summary {
            cpus_online: 2,
            cpus_present: 4,
            pool: Pages(7),
            actions: Actions { plugs: 1, unplugs: 2, grows: 3, shrinks: 4 },
            settled: true,
            reason: "plug: a=b".into(),
        })
        .unwrap();
        let read = Rules {
            plugs: 1,
            unplugs: 2,
            grows: 3,
            shrinks: 4,
            is_settled: true,
            reason: "plug: a=b".into(),
        };
        assert_eq!(rules(&dir), Some(read));
        file.remove();
        assert_eq!(rules(&dir), None);
    }
}
