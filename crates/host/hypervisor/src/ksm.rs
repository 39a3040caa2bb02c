//! Files of the kernel's page sharing (KSM), for reading and for changing its settings.
//!
//! ```text
//!   /sys/kernel/mm/ksm/*          ─► settings as found ─► changed ─► restored
//!   /sys/kernel/mm/ksm/*, ksmd's CPU time ─► KsmCounters
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use base::Pages;
use model::counters::KsmCounters;
use procfs::parse::task::StatField::{Parent, SystemTicks, UserTicks};
use procfs::parse::task::TaskStat;
use procfs::parse::{number, schedstat};

/// Directory of the files, below the root.
const DIR: &str = "sys/kernel/mm/ksm";
/// The settings that a driver changes, in the order of writing. The advisor of newer kernels
/// refuses a number of pages while it chooses the number itself, so the advisor's mode is written
/// first.
const DRIVEN: [&str; 4] = [ADVISOR, "pages_to_scan", "sleep_millisecs", "run"];
/// The setting that selects the advisor for the number of pages.
const ADVISOR: &str = "advisor_mode";
/// Advisor mode in which the advisor does not set the number of pages.
const NO_ADVISOR: &str = "none";
/// Longest text. The files contain numbers or a few words.
const TEXT_MAX: u64 = 256;
/// Maximum number of processes searched for ksmd. Kernel threads are among the first processes.
const SEARCHED_MAX: usize = 20_000;
/// Microseconds per tick of /proc/PID/stat: a hundred ticks a second on every architecture.
const TICK_US: u64 = 10_000;

/// KSM's files of a host.
#[derive(Debug)]
pub struct KsmFiles {
    root: PathBuf,
    /// Directory of the ksmd thread, searched at the first reading of CPU time.
    thread: OnceLock<Option<PathBuf>>,
}

impl KsmFiles {
    /// Creates a view of the files below a root, which is `/` outside of tests. It opens no file.
    pub fn at(root: &Path) -> KsmFiles {
        KsmFiles { root: root.to_path_buf(), thread: OnceLock::new() }
    }

    /// Returns true if a driver changes the file of this name.
    pub fn is_driven(name: &str) -> bool {
        DRIVEN.contains(&name)
    }

    /// Returns the directory of the files.
    pub fn dir(&self) -> PathBuf {
        self.root.join(DIR)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Returns 1 if KSM scans; `None` if the kernel has no KSM.
    pub fn run(&self) -> Option<u64> {
        self.number("run")
    }

    /// Returns a file's number; `None` if the file is missing or has no number.
    pub fn number(&self, name: &str) -> Option<u64> {
        text(&self.path(name))?.trim().parse().ok()
    }

    /// Returns a setting. The advisor lists all its modes with the active mode in brackets. In that
    /// case only the active mode is returned.
    pub fn setting(&self, name: &str) -> Option<String> {
        let text = text(&self.path(name))?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        Some(chosen.map_or(text.trim(), |(chosen, _)| chosen).to_owned())
    }

    /// Returns the settings that a driver changes, by name, if this kernel has them.
    pub fn settings(&self) -> Vec<(String, String)> {
        let found = |name: &&str| Some(((*name).to_owned(), self.setting(name)?));
        DRIVEN.iter().filter_map(found).collect()
    }

    /// Returns true if the kernel's advisor chooses the number of pages. The advisor must be off
    /// while a driver runs.
    pub fn is_advised(&self) -> bool {
        self.setting(ADVISOR).is_some_and(|mode| mode != NO_ADVISOR)
    }

    /// Returns the setting that turns the advisor off.
    pub fn no_advice() -> (String, String) {
        (ADVISOR.to_owned(), NO_ADVISOR.to_owned())
    }

    /// Checks that this process may write the settings.
    pub fn check_writable(&self) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path("run")).map(drop)
    }

    /// Writes a setting. A missing file is not created.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).truncate(true).open(self.path(name))?;
        file.write_all(text.as_bytes())
    }

    /// Restores settings as they were found, and returns the files that could not be written.
    pub fn put_back(&self, found: &[(String, String)]) -> Vec<(PathBuf, io::Error)> {
        // The settings may come from a file or a pipe, so only files that a driver changes are
        // written.
        let ours = found.iter().filter(|(name, _)| KsmFiles::is_driven(name));
        // An active advisor chooses the number of pages itself, so it is restored last.
        let (advisor, others): (Vec<_>, Vec<_>) = ours.partition(|(name, _)| name == ADVISOR);
        let written = others
            .into_iter()
            .chain(advisor)
            .map(|(name, text)| self.write(name, text).map_err(|error| (self.path(name), error)));
        written.filter_map(Result::err).collect()
    }

    /// Returns KSM's counters and its CPU time.
    pub fn counters(&self) -> KsmCounters {
        let profit = text(&self.path("general_profit"));
        let thread = self.thread.get_or_init(|| find_thread(&self.root));
        KsmCounters {
            pages_shared: self.number("pages_shared").map(Pages),
            pages_sharing: self.number("pages_sharing").map(Pages),
            full_scans: self.number("full_scans"),
            general_profit_bytes: profit.and_then(|text| text.trim().parse().ok()),
            cpu_us: thread.as_deref().and_then(cpu_us),
        }
    }
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(TEXT_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the directory of the ksmd kernel thread. A program can have the same name, but cannot be
/// a child of kthreadd, which is process 2.
fn find_thread(root: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(root.join("proc")).ok()?;
    let paths = entries.take(SEARCHED_MAX).filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .filter(|path| is_number(path))
        .find(|path| text(&path.join("stat")).is_some_and(|stat| is_ksmd(stat.as_bytes())))
}

fn is_number(path: &Path) -> bool {
    path.file_name().is_some_and(|name| number(name.as_encoded_bytes()).is_some())
}

fn is_ksmd(stat: &[u8]) -> bool {
    let is_it = |stat: TaskStat<'_>| stat.name == b"ksmd" && stat.numbers([Parent]) == Some([2]);
    TaskStat::parse(stat).is_some_and(is_it)
}

/// Returns the thread's CPU time, in nanosecond resolution if the kernel counts that, else in
/// ticks.
fn cpu_us(thread: &Path) -> Option<u64> {
    let exact = text(&thread.join("schedstat"))
        .and_then(|text| schedstat::parse(text.as_bytes()))
        .map(|ran| ran.run_ns / 1000);
    exact.or_else(|| {
        let stat = text(&thread.join("stat"))?;
        let stat = TaskStat::parse(stat.as_bytes())?;
        let [user, system] = stat.numbers([UserTicks, SystemTicks])?;
        Some(user.saturating_add(system).saturating_mul(TICK_US))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Pages;
    use procfs::testing::Tree;

    fn tree() -> Tree {
        let tree = Tree::create();
        tree.ksm();
        tree
    }

    #[test]
    fn settings_are_put_back_as_they_were_found() {
        let tree = tree();
        let files = KsmFiles::at(tree.path());
        let found = files.settings();
        assert_eq!(found[0], ("advisor_mode".to_owned(), "scan-time".to_owned()));
        assert!(files.is_advised());
        let (name, text) = KsmFiles::no_advice();
        files.write(&name, &text).unwrap();
        files.write("run", "1").unwrap();
        assert!(!files.is_advised());
        assert!(files.put_back(&found).is_empty());
        assert_eq!(files.settings(), found);
    }

    #[test]
    fn no_other_file_is_written_and_none_is_made() {
        let tree = tree();
        let files = KsmFiles::at(tree.path());
        tree.file(&format!("{DIR}/max_page_sharing"), "256\n");
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        fs::remove_file(files.path("sleep_millisecs")).unwrap();
        let found = [
            pair("../../../../proc/uptime", "x"),
            pair("max_page_sharing", "9"),
            pair("sleep_millisecs", "5"),
        ];
        let failed = files.put_back(&found);
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].0, files.path("sleep_millisecs"));
        assert_eq!(files.number("max_page_sharing"), Some(256));
        assert!(!files.path("sleep_millisecs").exists());
    }

    #[test]
    fn cpu_time_is_that_of_the_kernels_own_thread() {
        let tree = tree();
        let files = KsmFiles::at(tree.path());
        let counters = files.counters();
        assert_eq!(counters.cpu_us, Some(120_000), "in ticks");
        assert_eq!(counters.pages_sharing, Some(Pages(512)));
        assert_eq!((counters.full_scans, counters.general_profit_bytes), (None, Some(-4096)));
        tree.file("proc/41/schedstat", "2120000000 5 5\n");
        assert_eq!(files.counters().cpu_us, Some(2_120_000), "to the nanosecond");
    }

    #[test]
    fn a_kernel_without_ksm_has_no_statistics() {
        let tree = Tree::create();
        let files = KsmFiles::at(tree.path());
        assert_eq!((files.run(), files.is_advised()), (None, false));
        assert!(files.settings().is_empty());
        assert_eq!(files.counters(), KsmCounters::default());
    }
}
