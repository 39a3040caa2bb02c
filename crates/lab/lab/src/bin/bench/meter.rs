//! The kernel's counts for a process.

use crate::error::Error;
use procfs::parse::{schedstat, value_of};
use std::fs;
use std::iter::Sum;
use std::ops::Sub;
use std::path::{Path, PathBuf};

/// Resources that a process has used so far, in all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Number of dispatches, including dispatches after a preemption.
    pub dispatches: u64,
    /// Number of voluntary sleeps, which equals the number of wake-ups.
    pub sleeps: u64,
}

impl Sub for Used {
    type Output = Used;

    fn sub(self, before: Used) -> Used {
        Used {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            dispatches: self.dispatches.saturating_sub(before.dispatches),
            sleeps: self.sleeps.saturating_sub(before.sleeps),
        }
    }
}

impl Sum for Used {
    fn sum<I: Iterator<Item = Used>>(all: I) -> Used {
        all.fold(Used::default(), |sum, one| Used {
            cpu_ns: sum.cpu_ns + one.cpu_ns,
            dispatches: sum.dispatches + one.dispatches,
            sleeps: sum.sleeps + one.sleeps,
        })
    }
}

pub fn used(pid: u32) -> Result<Used, Error> {
    used_by(pid, |_| true)
}

/// Reads the resources used by all threads except the first. In QEMU these threads are mainly the
/// virtual CPUs.
pub fn used_beside_main(pid: u32) -> Result<Used, Error> {
    let main = pid.to_string();
    used_by(pid, |task| !task.ends_with(&main))
}

fn used_by(pid: u32, counts: impl Fn(&Path) -> bool) -> Result<Used, Error> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let mut sum = Used::default();
    for entry in fs::read_dir(&tasks).map_err(|e| Error::file(&tasks, e))? {
        let task = entry.map_err(|e| Error::file(&tasks, e))?.path();
        if !counts(&task) {
            continue;
        }
        let path = task.join("schedstat");
        let ran = schedstat::parse(&read(&path)?)
            .ok_or(Error::Content { path, what: "three numbers" })?;
        let sleeps = value(&task.join("status"), "voluntary_ctxt_switches")?;
        sum.cpu_ns += ran.run_ns;
        sum.dispatches += ran.dispatches;
        sum.sleeps += sleeps;
    }
    Ok(sum)
}

/// Returns the resident memory of a process, in KiB. The figure in `status` is not used, because
/// some kernels update it only after a change larger than the daemon.
pub fn resident_kib(pid: u32) -> Result<u64, Error> {
    value(&PathBuf::from(format!("/proc/{pid}/smaps_rollup")), "Rss")
}

/// Returns the files below these directories that a process has open. Each file is listed once, in
/// the order of the descriptors.
pub fn open_files(pid: u32, below: &[&Path]) -> Result<Vec<PathBuf>, Error> {
    let dir = PathBuf::from(format!("/proc/{pid}/fd"));
    let mut open = Vec::new();
    for entry in fs::read_dir(&dir).map_err(|e| Error::file(&dir, e))? {
        let link = entry.map_err(|e| Error::file(&dir, e))?;
        let number = link.file_name().to_str().and_then(|n| n.parse::<u32>().ok());
        // A descriptor may be closed during the search.
        if let (Some(number), Ok(path)) = (number, fs::read_link(link.path()))
            && below.iter().any(|dir| path.starts_with(dir))
        {
            open.push((number, path));
        }
    }
    open.sort();
    let mut files: Vec<PathBuf> = Vec::new();
    for (_, path) in open {
        if !files.contains(&path) {
            files.push(path);
        }
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|e| Error::file(path, e))
}

fn value(path: &Path, name: &'static str) -> Result<u64, Error> {
    let missing = || Error::Content { path: path.into(), what: name };
    value_of(&read(path)?, name).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_fell_have_a_difference_of_zero() {
        let before = Used { cpu_ns: 10, dispatches: 2, sleeps: 2 };
        let after = Used { cpu_ns: 25, dispatches: 1, sleeps: 3 };
        assert_eq!(after - before, Used { cpu_ns: 15, dispatches: 0, sleeps: 1 });
    }
}
