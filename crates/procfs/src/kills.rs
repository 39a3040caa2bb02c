//! Kills of processes by the kernel for want of memory, as their control groups count them.
//!
//! A group counts a process that was killed whatever lacked the memory: the group, one above it, or
//! the host. The one that lacked it has counted that as well.

use std::fmt;

use crate::{Buffer, MemoryGroup, Root};

/// Place in which memory was missing when the kernel killed a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// A control group of the process had reached its bound.
    Group,
    /// No group of it had.
    Host,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shortage::Group => "its control group has no more memory",
            Shortage::Host => "the host had no more memory",
        })
    }
}

/// Counts of a group since it was made. One that the kernel does not tell is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kills {
    /// Processes that were killed.
    pub(crate) killed: u64,
    /// Times that this group, or in version 2 one below it, had no more memory.
    pub(crate) missing: Option<u64>,
    /// The same of this group alone.
    pub(crate) missing_own: Option<u64>,
}

/// Counts of all groups of a process at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillWatch(Vec<(MemoryGroup, Option<Kills>)>);

impl KillWatch {
    /// Counts of these groups of one process, from its own upwards.
    pub fn new(groups: Vec<MemoryGroup>) -> KillWatch {
        let counted = groups.into_iter().map(|group| (group.clone(), group.kills()));
        KillWatch(counted.collect())
    }

    /// The same of a process by its number.
    pub fn of(root: &Root, pid: u32) -> KillWatch {
        let mut buffer = Buffer::default();
        KillWatch::new(MemoryGroup::all(root.path(), &pid.to_string(), &mut buffer))
    }

    /// Returns what lacked memory if a process was killed since then, in the nearest group that is
    /// still there. A group may go with its last process. Counts that are missing tell nothing.
    pub fn killed(&self) -> Option<Shortage> {
        let mut left = self.0.iter().filter_map(|(group, then)| Some((group.kills()?, *then)));
        let (now, then) = left.next()?;
        let then = then.filter(|then| now.killed > then.killed)?;
        let grew = |now: Option<u64>, then| now.zip(then).is_some_and(|(now, then)| now > then);
        // Groups above count what their other children lacked.
        let is_above = |(now, then): (Kills, Option<Kills>)| {
            grew(now.missing_own, then.and_then(|then| then.missing_own))
        };
        match grew(now.missing, then.missing) || left.any(is_above) {
            true => Some(Shortage::Group),
            false => Some(Shortage::Host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeKernel;

    const OWN: &str = "sys/fs/cgroup/farm/one";
    const ABOVE: &str = "sys/fs/cgroup/farm";

    fn events(kernel: &FakeKernel, dir: &str, file: &str, oom: u64, oom_kill: u64) {
        kernel.write(&format!("{dir}/{file}"), &format!("oom {oom}\noom_kill {oom_kill}\n"));
    }

    /// A farm in which a kill and a shortage were counted before.
    fn farm() -> (FakeKernel, KillWatch) {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("proc/7/cgroup", "0::/farm/one\n");
        events(&kernel, OWN, "memory.events", 0, 0);
        events(&kernel, ABOVE, "memory.events", 3, 1);
        events(&kernel, ABOVE, "memory.events.local", 2, 0);
        let watch = KillWatch::of(&kernel.root(), 7);
        assert_eq!(watch.killed(), None);
        (kernel, watch)
    }

    #[test]
    fn kill_is_the_groups_when_it_or_one_above_lacked_memory() {
        let (kernel, watch) = farm();
        events(&kernel, OWN, "memory.events", 1, 1);
        assert_eq!(watch.killed(), Some(Shortage::Group));
        let (kernel, watch) = farm();
        events(&kernel, OWN, "memory.events", 0, 1);
        events(&kernel, ABOVE, "memory.events.local", 3, 0);
        assert_eq!(watch.killed(), Some(Shortage::Group));
    }

    #[test]
    fn kill_is_the_hosts_when_only_another_group_lacked_memory() {
        let (kernel, watch) = farm();
        events(&kernel, OWN, "memory.events", 0, 1);
        events(&kernel, ABOVE, "memory.events", 9, 2);
        assert_eq!(watch.killed(), Some(Shortage::Host));
    }

    #[test]
    fn kill_is_the_nearest_groups_when_its_own_is_gone() {
        let (kernel, watch) = farm();
        std::fs::remove_dir_all(kernel.path(OWN)).unwrap();
        assert_eq!(watch.killed(), None);
        events(&kernel, ABOVE, "memory.events", 4, 2);
        assert_eq!(watch.killed(), Some(Shortage::Group), "the one that is gone had no more");
    }

    #[test]
    fn kill_in_version_1_is_the_groups_when_its_bound_was_met() {
        let kernel = FakeKernel::new(1, 1);
        let one = "sys/fs/cgroup/memory/one";
        kernel.write("proc/7/cgroup", "4:memory:/one\n");
        kernel.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        let count = |met: u64, kills: u64| {
            kernel.write(&format!("{one}/memory.failcnt"), &format!("{met}\n"));
            let control = format!("oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n");
            kernel.write(&format!("{one}/memory.oom_control"), &control);
        };
        count(5, 0);
        let watch = KillWatch::of(&kernel.root(), 7);
        count(5, 1);
        assert_eq!(watch.killed(), Some(Shortage::Host));
        count(6, 1);
        assert_eq!(watch.killed(), Some(Shortage::Group));
    }

    #[test]
    fn kill_is_nobodys_when_counts_are_missing() {
        let (kernel, _) = farm();
        std::fs::remove_file(kernel.path(&format!("{OWN}/memory.events"))).unwrap();
        std::fs::remove_file(kernel.path(&format!("{ABOVE}/memory.events"))).unwrap();
        assert_eq!(KillWatch::of(&kernel.root(), 7).killed(), None);
        assert_eq!(KillWatch::default().killed(), None);
    }
}
