//! Processes killed by the kernel for lack of memory, as their control groups count them.
//!
//! ```text
//!   version   a process killed        a lack of memory
//!   1         in its own group        in the group that has the bound
//!   2         in its own and above    in the group that has the bound, and above
//! ```
//!
//! The counts have no names, so the killed process may be another member of the group. A kill is
//! certain only for a process that is alone in its group.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::memory_group::{Kills, MemoryGroup};
use crate::parse::value_of;
use crate::{Buffer, Kept, Root};

/// The level at which memory was short when the kernel killed a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// A control group of the process had reached its limit.
    Group,
    /// No control group of the process had reached its limit.
    Host,
    /// A control group with other members had reached its limit, because of this process or of
    /// another member.
    Either,
    /// Unknown, because the killed process may be another process.
    Unknown,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shortage::Group => "was killed: its control group allows no more memory",
            Shortage::Host => "was killed: the host had no more memory",
            Shortage::Either => "was killed: its control group or the host had no more memory",
            Shortage::Unknown => {
                "may have been killed: memory ran out, and the kernel killed this process or \
                 another one"
            }
        })
    }
}

/// Counts of all groups of a process at one time.
#[derive(Debug, Default)]
pub struct KillWatch {
    process: String,
    /// The groups that show counts, from the process's own group upwards.
    groups: Vec<(MemoryGroup, Kills)>,
    /// True if the process's group had other members at that time. They may end together with this
    /// process, and one of them may have been the killed process.
    had_others: bool,
    /// Count of the whole system, used if groups do not include the groups below them.
    system: Option<SystemKills>,
}

/// Number of processes that the kernel has killed for lack of memory since it started.
#[derive(Clone, Debug, Default)]
struct SystemKills {
    root: Root,
    then: Option<u64>,
}

impl SystemKills {
    fn read(root: &Root) -> SystemKills {
        SystemKills { then: SystemKills::count(root), root: root.clone() }
    }

    fn count(root: &Root) -> Option<u64> {
        let file = Kept::open(&root.join("proc/vmstat"));
        value_of(file.whole(&mut Buffer::default())?, "oom_kill")
    }
}

/// Counts of the whole system and of groups, for all processes that are checked now.
#[derive(Debug, Default)]
pub struct AllKills {
    system: SystemKills,
    /// Counts of the groups read so far. Guests share most of the groups above their own.
    groups: RefCell<BTreeMap<PathBuf, Option<Kills>>>,
}

impl AllKills {
    /// Reads the count of the system. A group is read when it is needed.
    pub fn read(root: &Root) -> AllKills {
        AllKills { system: SystemKills::read(root), ..AllKills::default() }
    }

    /// Returns the number of processes that the kernel has killed since it started. Kernels before
    /// 4.13 do not count them.
    pub fn total(&self) -> Option<u64> {
        self.system.then
    }

    /// Returns the counts of a group, which is read once for all processes in it.
    fn of(&self, group: &MemoryGroup) -> Option<Kills> {
        if let Some(known) = self.groups.borrow().get(group.dir()) {
            return *known;
        }
        *self.groups.borrow_mut().entry(group.dir().to_path_buf()).or_insert(group.kills())
    }
}

impl KillWatch {
    /// Records the counts of these groups of a process. The first group is the process's own.
    pub fn new(all: &AllKills, process: &str, groups: Vec<MemoryGroup>) -> KillWatch {
        let is_first = groups.first().is_some_and(MemoryGroup::is_of_version_1);
        let counted = groups.into_iter().filter_map(|group| all.of(&group).map(|it| (group, it)));
        let mut watch = KillWatch {
            process: process.to_owned(),
            groups: counted.collect(),
            had_others: false,
            system: is_first.then(|| all.system.clone()),
        };
        watch.look_for_others();
        watch
    }

    fn look_for_others(&mut self) {
        let own = self.groups.first();
        self.had_others = own.is_some_and(|(own, _)| own.has_others(&self.process, None));
    }

    /// Records the counts for a process by its id.
    pub fn of(root: &Root, pid: u32) -> KillWatch {
        let process = pid.to_string();
        let groups = MemoryGroup::all(root.path(), &process, &mut Buffer::default());
        KillWatch::new(&AllKills::read(root), &process, groups)
    }

    /// Replaces the earlier counts by current ones, for the groups that still exist.
    pub fn renew(&mut self, all: &AllKills) {
        for (group, kills) in &mut self.groups {
            *kills = all.of(group).unwrap_or(*kills);
        }
        self.system.iter_mut().for_each(|then| then.clone_from(&all.system));
        self.look_for_others();
    }

    /// Returns the shortage for which the kernel killed the ended process after the counts were
    /// recorded. If the process's own group is gone too, version 2 uses the nearest existing group.
    /// Without counts, the result is `None`.
    pub fn killed(&self) -> Option<Shortage> {
        let now = |(group, then): &(MemoryGroup, Kills)| Some((group.kills()?, *then));
        let nearest = self.groups.iter().position(|group| group.0.kills().is_some())?;
        if nearest > 0
            && let Some(system) = &self.system
        {
            let grew = SystemKills::count(&system.root)? > system.then?;
            return grew.then_some(Shortage::Unknown);
        }
        let (own, then) = now(self.groups.get(nearest)?)?;
        let is_killed = match nearest {
            0 => own.killed_own > then.killed_own,
            _ => own.killed > then.killed,
        };
        if !is_killed {
            return None;
        }
        let grew = |now: Option<u64>, then| now.zip(then).is_some_and(|(now, then)| now > then);
        let mut is_shared = self.had_others;
        for (place, group) in self.groups.iter().enumerate().skip(nearest) {
            let below = place.checked_sub(1).and_then(|below| self.groups.get(below));
            is_shared |= group.0.has_others(&self.process, below.map(|(below, _)| below));
            if place == nearest && is_shared {
                return Some(Shortage::Unknown);
            }
            let (now, then) = now(group)?;
            let lacked = match place == nearest && place > 0 {
                // The group that is gone may have been the group that lacked memory.
                true => grew(now.missing, then.missing),
                // Groups above also count shortages of their other children.
                false => grew(now.missing_own, then.missing_own),
            };
            if lacked {
                return Some(if is_shared { Shortage::Either } else { Shortage::Group });
            }
        }
        Some(Shortage::Host)
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

    /// Returns a farm with an earlier kill and shortage. Its only guest has ended.
    fn farm() -> (FakeKernel, KillWatch) {
        let kernel = FakeKernel::new(1, 1);
        for dir in [OWN, ABOVE] {
            kernel.write(&format!("{dir}/cgroup.procs"), "");
        }
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
        std::fs::create_dir(kernel.path(&format!("{ABOVE}/two"))).unwrap();
        assert_eq!(
            watch.killed(),
            Some(Shortage::Either),
            "another of the farm may have lacked it"
        );
    }

    #[test]
    fn shared_group_is_read_once_for_all_processes() {
        let (kernel, watch) = farm();
        kernel.write("proc/8/cgroup", "0::/farm/one\n");
        let all = AllKills::read(&kernel.root());
        let groups = || MemoryGroup::all(kernel.root().path(), "8", &mut Buffer::default());
        let first = KillWatch::new(&all, "7", groups());
        events(&kernel, OWN, "memory.events", 1, 1);
        let second = KillWatch::new(&all, "8", groups());
        assert_eq!((first.killed(), second.killed()), (watch.killed(), watch.killed()));
        assert_eq!(watch.killed(), Some(Shortage::Group), "counted since the first reading");
    }

    #[test]
    fn kill_may_be_of_a_process_that_has_gone_too() {
        let (kernel, _) = farm();
        let of = |processes: &str| {
            kernel.write(&format!("{OWN}/cgroup.procs"), processes);
            events(&kernel, OWN, "memory.events", 0, 0);
            let watch = KillWatch::of(&kernel.root(), 7);
            events(&kernel, OWN, "memory.events", 1, 1);
            kernel.write(&format!("{OWN}/cgroup.procs"), "");
            watch.killed()
        };
        assert_eq!(of("7\n8\n"), Some(Shortage::Unknown), "it may have been virtiofsd");
        assert_eq!(of("7\n"), Some(Shortage::Group));
    }

    #[test]
    fn kill_is_told_for_certain_when_qemu_is_still_listed() {
        for (processes, told) in [
            ("7\n", Shortage::Group),
            ("7\n77\n", Shortage::Unknown),
            ("77\n", Shortage::Unknown),
            ("0\n", Shortage::Unknown),
        ] {
            let (kernel, watch) = farm();
            events(&kernel, OWN, "memory.events", 1, 1);
            kernel.write(&format!("{OWN}/cgroup.procs"), processes);
            assert_eq!(watch.killed(), Some(told), "{processes}");
        }
    }

    #[test]
    fn kill_is_not_told_for_certain_when_others_share_the_group() {
        let (kernel, watch) = farm();
        events(&kernel, OWN, "memory.events", 1, 1);
        events(&kernel, OWN, "memory.events.local", 0, 0);
        assert_eq!(watch.killed(), None, "it was in a group below");
        events(&kernel, OWN, "memory.events.local", 1, 1);
        kernel.write(&format!("{OWN}/cgroup.procs"), "8\n");
        assert_eq!(watch.killed(), Some(Shortage::Unknown));
        let (kernel, watch) = farm();
        std::fs::create_dir(kernel.path(&format!("{ABOVE}/two"))).unwrap();
        std::fs::remove_dir_all(kernel.path(OWN)).unwrap();
        events(&kernel, ABOVE, "memory.events", 4, 2);
        assert_eq!(watch.killed(), Some(Shortage::Unknown), "it may have been the other one");
        let (kernel, watch) = farm();
        events(&kernel, OWN, "memory.events", 1, 1);
        kernel.remove(&format!("{OWN}/cgroup.procs"));
        assert_eq!(watch.killed(), Some(Shortage::Unknown), "it is not seen if there are others");
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
        kernel.write("sys/fs/cgroup/memory/memory.oom_control", "oom_kill 0\n");
        kernel.write(&format!("{one}/cgroup.procs"), "");
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
        // The guest's group ends with the guest, and no other group has counted its kill.
        let killed =
            |all: u64| kernel.write("proc/vmstat", &format!("pgfault 7\noom_kill {all}\n"));
        killed(3);
        let watch = KillWatch::of(&kernel.root(), 7);
        std::fs::remove_dir_all(kernel.path(one)).unwrap();
        assert_eq!(watch.killed(), None);
        killed(4);
        assert_eq!(watch.killed(), Some(Shortage::Unknown));
    }

    #[test]
    fn kill_is_not_its_own_when_counts_are_renewed_since() {
        let (kernel, mut watch) = farm();
        std::fs::create_dir(kernel.path(&format!("{ABOVE}/two"))).unwrap();
        events(&kernel, ABOVE, "memory.events", 4, 2);
        watch.renew(&AllKills::read(&kernel.root()));
        std::fs::remove_dir_all(kernel.path(OWN)).unwrap();
        assert_eq!(watch.killed(), None, "another was killed, long before");
        events(&kernel, ABOVE, "memory.events", 5, 3);
        assert_eq!(watch.killed(), Some(Shortage::Unknown));
        watch.renew(&AllKills::default());
        assert_eq!(watch.killed(), None);
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
