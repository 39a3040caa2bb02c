//! The files of the kernel's page sharing (KSM), for all who drive it or look at it.
//!
//! ```text
//!   /sys/kernel/mm/ksm/*          ─► settings as they are found ─► ... ─► put back
//!   /sys/kernel/mm/ksm/*, ksmd's CPU time ─► KsmCounters
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use counters::{KsmCounters, Pages};
use procfs::parse::task::StatField::{Parent, SystemTicks, UserTicks};
use procfs::parse::task::TaskStat;
use procfs::parse::{number, schedstat};

/// Where the files are, below the root.
const DIR: &str = "sys/kernel/mm/ksm";
/// The settings that a driver changes, in the order in which they are written: the advisor of
/// newer kernels refuses a number of pages while it chooses the number itself, so it goes first.
const DRIVEN: [&str; 4] = [ADVISOR, "pages_to_scan", "sleep_millisecs", "run"];
/// The setting for what chooses the number of pages.
const ADVISOR: &str = "advisor_mode";
/// Its mode in which it leaves that to others.
const NO_ADVISOR: &str = "none";
/// Texts of these files are numbers, or a few words.
const TEXT_MAX: u64 = 256;
/// Processes looked at for ksmd. A kernel's threads are among its first processes.
const SEARCHED_MAX: usize = 20_000;
/// Microseconds in a tick of /proc/PID/stat: a hundred a second, for every architecture.
const TICK_US: u64 = 10_000;

/// KSM's files of a host.
#[derive(Debug)]
pub struct KsmFiles {
    root: PathBuf,
    /// The directory of its thread: looked for when CPU time is asked for first.
    thread: OnceLock<Option<PathBuf>>,
}

impl KsmFiles {
    /// The files below a root that is `/` but for tests. Nothing is opened yet.
    pub fn at(root: &Path) -> KsmFiles {
        KsmFiles { root: root.to_path_buf(), thread: OnceLock::new() }
    }

    /// Whether a driver changes the file of this name.
    pub fn is_driven(name: &str) -> bool {
        DRIVEN.contains(&name)
    }

    /// Where they are.
    pub fn dir(&self) -> PathBuf {
        self.root.join(DIR)
    }

    /// Where one of them is.
    fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Whether it scans: 1 if so. `None` where the kernel has no KSM.
    pub fn run(&self) -> Option<u64> {
        self.number("run")
    }

    /// A file's number; `None` where it is not there, or holds none.
    pub fn number(&self, name: &str) -> Option<u64> {
        text(&self.path(name))?.trim().parse().ok()
    }

    /// A setting. The advisor shows all its modes, with the one that is on in brackets: that one.
    pub fn setting(&self, name: &str) -> Option<String> {
        let text = text(&self.path(name))?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        Some(chosen.map_or(text.trim(), |(chosen, _)| chosen).to_owned())
    }

    /// The settings that a driver changes, by their names; those that this kernel has.
    pub fn settings(&self) -> Vec<(String, String)> {
        let found = |name: &&str| Some(((*name).to_owned(), self.setting(name)?));
        DRIVEN.iter().filter_map(found).collect()
    }

    /// Whether the kernel's advisor chooses the number of pages, which it must not while we drive.
    pub fn is_advised(&self) -> bool {
        self.setting(ADVISOR).is_some_and(|mode| mode != NO_ADVISOR)
    }

    /// The setting under which it chooses nothing.
    pub fn no_advice() -> (String, String) {
        (ADVISOR.to_owned(), NO_ADVISOR.to_owned())
    }

    /// Whether we may write, by opening a setting for it.
    pub fn check_writable(&self) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path("run")).map(drop)
    }

    /// Writes a setting. A file that is not there is not made.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).truncate(true).open(self.path(name))?;
        file.write_all(text.as_bytes())
    }

    /// Writes settings back as they were found; gives the files that could not be written.
    pub fn put_back(&self, found: &[(String, String)]) -> Vec<(PathBuf, io::Error)> {
        // They may come from a file or a pipe: nothing but what a driver changes is written.
        let ours = found.iter().filter(|(name, _)| KsmFiles::is_driven(name));
        // An advisor that is switched on chooses the number itself, so it is put back last.
        let (advisor, others): (Vec<_>, Vec<_>) = ours.partition(|(name, _)| name == ADVISOR);
        let written = others
            .into_iter()
            .chain(advisor)
            .map(|(name, text)| self.write(name, text).map_err(|error| (self.path(name), error)));
        written.filter_map(Result::err).collect()
    }

    /// What it has done so far, and for how much CPU time.
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

/// The directory of the kernel's thread of that name. A program can call itself the same, but
/// cannot be a child of kthreadd, which is process 2.
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

/// The thread's CPU time: to the nanosecond where the kernel counts that, else in ticks.
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
    use crate::testing::Tree;
    use counters::Pages;

    fn tree() -> Tree {
        let tree = Tree::new();
        let files = [
            ("run", "0\n"),
            ("pages_to_scan", "77\n"),
            ("sleep_millisecs", "200\n"),
            ("advisor_mode", "none [scan-time]\n"),
            ("pages_shared", "10\n"),
            ("pages_sharing", "512\n"),
            ("general_profit", "-4096\n"),
        ];
        for (name, text) in files {
            tree.file(&format!("{DIR}/{name}"), text);
        }
        let stat = |pid: u32, parent: u32| {
            let text = format!("{pid} (ksmd) S {parent} 0 0 0 -1 0 0 0 0 0 7 5 0 0 25 5 1 0 33\n");
            tree.file(&format!("proc/{pid}/stat"), &text);
        };
        stat(40, 1);
        stat(41, 2);
        tree.file("proc/uptime", "1 1\n");
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
        let tree = Tree::new();
        let files = KsmFiles::at(tree.path());
        assert_eq!((files.run(), files.is_advised()), (None, false));
        assert!(files.settings().is_empty());
        assert_eq!(files.counters(), KsmCounters::default());
    }
}
