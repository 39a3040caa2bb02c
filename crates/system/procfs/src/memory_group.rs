//! Memory limits of control groups, in addition to the memory of the host.
//!
//! A process can use no more memory than is left in its group and in each parent group. Files are
//! opened for each read, because few processes have such limits, and groups come and go.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use base::Bytes;

use crate::parse::{cgroup, value_of};
use crate::{Buffer, Kept};

/// The directory of the memory controller in version 1.
const FIRST: &str = "sys/fs/cgroup/memory";
const CONTROLLER: &str = "memory";
/// Maximum number of levels that are read, from the process's own group upwards.
const LEVELS_MAX: usize = 32;
/// Smallest value that means "no limit" in version 1.
const NONE_MIN: u64 = 1 << 60;

/// Version of control groups: 1 is `First`, and 2 is `Second`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hierarchy {
    First,
    Second,
}

/// A control group that contains a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGroup {
    dir: PathBuf,
    hierarchy: Hierarchy,
}

/// Memory of a group that cannot simply be dropped: all but file pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupUse {
    /// Memory alone.
    pub memory: Bytes,
    /// The bound on memory and swap together, and the use of both, if there is such a bound.
    pub with_swap: Option<(Bytes, Bytes)>,
}

/// Counts of a group since it was created. A count that the kernel does not show is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kills {
    /// Processes that were killed in the group, or in version 2 in a group below it.
    pub(crate) killed: u64,
    /// Processes that were killed in this group alone.
    pub(crate) killed_own: u64,
    /// Number of times that this group, or in version 2 a group below it, had no more memory.
    pub(crate) missing: Option<u64>,
    /// Number of times that this group alone had no more memory.
    pub(crate) missing_own: Option<u64>,
}

impl MemoryGroup {
    /// Returns all groups of a process (`self` for the current process), from its own group up to
    /// the visible top. In a container the top is the container's group, and a process outside the
    /// container is in none of the visible groups.
    pub fn all(root: &Path, process: &str, buffer: &mut Buffer) -> Vec<MemoryGroup> {
        let file = Kept::open(&root.join("proc").join(process).join("cgroup"));
        let Some(text) = file.whole(buffer) else { return Vec::new() };
        let first = cgroup::of_controller(text, CONTROLLER).unwrap_or_default();
        let second = cgroup::unified(text).unwrap_or_default();
        let top = root.join(FIRST);
        let is_first = top.join("memory.limit_in_bytes").exists();
        if cgroup::is_outside(text, if is_first { CONTROLLER } else { cgroup::UNIFIED_NAME }) {
            return Vec::new();
        }
        if is_first {
            let mut all = above(&top, &first, Hierarchy::First);
            // Until Linux 5.11 a group may be configured not to include the groups below it.
            let counts = |group: &MemoryGroup| group.number("memory.use_hierarchy") != Some(0);
            let end = all.iter().skip(1).position(|group| !counts(group));
            all.truncate(end.map_or(all.len(), |end| end + 1));
            return all;
        }
        let tops = cgroup::UNIFIED.map(|top| root.join(top));
        let top = tops.iter().find(|top| top.join(&second).is_dir()).unwrap_or(&tops[0]);
        above(top, &second, Hierarchy::Second)
    }

    /// Returns the group with this directory.
    pub fn at(dir: PathBuf) -> MemoryGroup {
        let hierarchy = match dir.join("memory.limit_in_bytes").exists() {
            true => Hierarchy::First,
            false => Hierarchy::Second,
        };
        MemoryGroup { dir, hierarchy }
    }

    /// Returns the group's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the lowest limit of the group, if it has any. Above `memory.high` the kernel
    /// throttles the group's processes until they hardly run, so this limit counts as well.
    pub fn limit(&self) -> Option<Bytes> {
        let files: &[&str] = match self.hierarchy {
            Hierarchy::First => &["memory.limit_in_bytes"],
            Hierarchy::Second => &["memory.max", "memory.high"],
        };
        // Without a limit the file contains `max`, which is not a number.
        let bounds = files.iter().filter_map(|file| self.number(file));
        bounds.filter(|bytes| *bytes < NONE_MIN).min().map(Bytes)
    }

    /// Returns the group's use of memory, and of swap if one limit covers both. `None` if the group
    /// is gone.
    pub fn used(&self) -> Option<GroupUse> {
        let (file, parts) = match self.hierarchy {
            Hierarchy::First => {
                ("memory.usage_in_bytes", ["total_inactive_file", "total_active_file"])
            }
            Hierarchy::Second => ("memory.current", ["inactive_file", "active_file"]),
        };
        let used = self.number(file)?;
        let (stat, mut buffer) = (self.file("memory.stat"), Buffer::default());
        let text = stat.once(&mut buffer).unwrap_or_default();
        let files = parts.iter().filter_map(|name| value_of(text, name));
        let files = Bytes(files.fold(0, u64::saturating_add));
        let with_swap = self.bound_with_swap().map(|(limit, used)| (limit, used.less(files)));
        Some(GroupUse { memory: Bytes(used).less(files), with_swap })
    }

    /// Returns the bound on memory and swap together, and their use. Only version 1 has such a
    /// bound, and only if the kernel counts swap. A page that goes to swap stays counted.
    fn bound_with_swap(&self) -> Option<(Bytes, Bytes)> {
        if self.hierarchy == Hierarchy::Second {
            return None;
        }
        let limit = self.number("memory.memsw.limit_in_bytes").filter(|bytes| *bytes < NONE_MIN)?;
        Some((Bytes(limit), Bytes(self.number("memory.memsw.usage_in_bytes")?)))
    }

    /// Returns the memory left below this limit of the group. Free swap counts as far as the group
    /// may still use it.
    pub fn left(&self, limit: Bytes, swap: Bytes) -> Option<Bytes> {
        let used = self.used()?;
        let swap_left = match self.hierarchy {
            Hierarchy::First => None,
            Hierarchy::Second => {
                self.number("memory.swap.max").zip(self.number("memory.swap.current"))
            }
        };
        let swap = swap_left.map_or(swap, |(limit, used)| swap.min(Bytes(limit).less(Bytes(used))));
        let left = limit.less(used.memory).plus(swap);
        Some(used.with_swap.map_or(left, |(limit, used)| left.min(limit.less(used))))
    }

    /// Returns the counts of killed processes and of memory shortages. `None` if the group is gone.
    pub(crate) fn kills(&self) -> Option<Kills> {
        let value =
            |file: &str, name| value_of(self.file(file).once(&mut Buffer::default())?, name);
        Some(match self.hierarchy {
            Hierarchy::First => {
                let missing = self.number("memory.failcnt");
                let killed = value("memory.oom_control", "oom_kill")?;
                Kills { killed, killed_own: killed, missing, missing_own: missing }
            }
            Hierarchy::Second => {
                let killed = value("memory.events", "oom_kill")?;
                let missing = value("memory.events", "oom");
                // Before Linux 5.2 the group's own counts are not separate.
                let own = |name| value("memory.events.local", name);
                let (killed_own, missing_own) = (own("oom_kill"), own("oom").or(missing));
                Kills { killed, killed_own: killed_own.unwrap_or(killed), missing, missing_own }
            }
        })
    }

    /// Returns true if the group has another visible process, or contains a group other than
    /// `below`. For a process's own group `below` is `None`: the groups inside are for threads, and
    /// do not count. The kernel lists the process itself until all its memory is freed.
    pub(crate) fn has_others(&self, process: &str, below: Option<&MemoryGroup>) -> bool {
        let mut buffer = Buffer::default();
        let others = |text: &[u8]| {
            text.split(|byte| *byte == b'\n')
                .any(|line| !line.is_empty() && line != process.as_bytes())
        };
        if self.file("cgroup.procs").once(&mut buffer).is_none_or(others) {
            return true;
        }
        let Some(below) = below else { return false };
        let Ok(mut entries) = std::fs::read_dir(&self.dir) else { return true };
        entries.any(|entry| {
            let is_dir = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            entry.is_ok_and(|entry| is_dir(&entry) && entry.path() != below.dir)
        })
    }

    pub(crate) fn is_of_version_1(&self) -> bool {
        self.hierarchy == Hierarchy::First
    }

    /// Returns true if the group's memory must stay out of swap.
    pub fn bars_swap(&self) -> bool {
        self.hierarchy == Hierarchy::Second && self.number("memory.swap.max") == Some(0)
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.file(file).number(&mut Buffer::default())
    }

    fn file(&self, name: &str) -> Kept {
        Kept::open(&self.dir.join(name))
    }
}

/// Returns the groups from this path up to the top. A path that does not exist belongs to another
/// namespace, of which only the top is visible.
fn above(top: &Path, path: &Path, hierarchy: Hierarchy) -> Vec<MemoryGroup> {
    let own = top.join(path);
    let own = if own.is_dir() { own } else { top.to_path_buf() };
    let dirs = own.ancestors().take_while(|dir| dir.starts_with(top)).take(LEVELS_MAX);
    dirs.map(|dir| MemoryGroup { dir: dir.to_path_buf(), hierarchy }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeKernel;

    fn groups(kernel: &FakeKernel) -> Vec<MemoryGroup> {
        MemoryGroup::all(kernel.root().path(), "7", &mut Buffer::default())
    }

    #[test]
    fn report_h07_bounds_of_all_levels_are_read_in_version_2() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("proc/7/cgroup", "0::/vms/one\n");
        let one = "sys/fs/cgroup/vms/one";
        for (file, text) in [
            ("memory.max", "314572800\n"),
            ("memory.high", "max\n"),
            ("memory.current", "304087040\n"),
            ("memory.stat", "anon 1\nfile 9\ninactive_file 1048576\nactive_file 1048576\n"),
            ("memory.swap.max", "0\n"),
        ] {
            kernel.write(&format!("{one}/{file}"), text);
        }
        kernel.write("sys/fs/cgroup/vms/memory.max", "max\n");
        kernel.write("sys/fs/cgroup/vms/memory.high", "1073741824\n");
        let all = groups(&kernel);
        let limits: Vec<_> = all.iter().map(MemoryGroup::limit).collect();
        assert_eq!(limits, [Some(Bytes::mib(300)), Some(Bytes::mib(1024)), None]);
        let used = GroupUse { memory: Bytes::mib(288), with_swap: None };
        assert_eq!(all[0].used(), Some(used), "pages of files can be dropped");
        assert_eq!((all[0].bars_swap(), all[1].bars_swap()), (true, false));
    }

    #[test]
    fn report_h07_bounds_of_all_levels_are_read_in_version_1() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("proc/7/cgroup", "4:memory:/vms/one\n0::/\n");
        let none = "9223372036854771712\n";
        for (dir, limit) in [("", none), ("/vms", "1073741824\n"), ("/vms/one", "314572800\n")] {
            kernel.write(&format!("{FIRST}{dir}/memory.limit_in_bytes"), limit);
        }
        let one = format!("{FIRST}/vms/one");
        kernel.write(&format!("{one}/memory.usage_in_bytes"), "304087040\n");
        let stat = "inactive_file 7\ntotal_inactive_file 1048576\ntotal_active_file 1048576\n";
        kernel.write(&format!("{one}/memory.stat"), stat);
        let all = groups(&kernel);
        let limits: Vec<_> = all.iter().map(MemoryGroup::limit).collect();
        assert_eq!(limits, [Some(Bytes::mib(300)), Some(Bytes::mib(1024)), None]);
        let used = GroupUse { memory: Bytes::mib(288), with_swap: None };
        assert_eq!(all[0].used(), Some(used));
        kernel.write(&format!("{FIRST}/vms/memory.use_hierarchy"), "0\n");
        assert_eq!(groups(&kernel).len(), 1, "what is below that group does not count in it");
    }

    #[test]
    fn swap_is_left_to_a_group_as_its_bound_has_it() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("two/memory.current", "10485760\n");
        let left = |swap| {
            let group = MemoryGroup::at(kernel.path("two"));
            group.left(Bytes::mib(16), Bytes::mib(swap)).unwrap().as_mib()
        };
        assert_eq!((left(0), left(64)), (6, 70), "its kernel counts none");
        kernel.write("two/memory.swap.max", "max\n");
        kernel.write("two/memory.swap.current", "10485760\n");
        assert_eq!(left(64), 70);
        kernel.write("two/memory.swap.max", "15728640\n");
        assert_eq!((left(2), left(64)), (8, 11));
    }

    #[test]
    fn bound_with_swap_holds_in_version_1_when_it_is_less() {
        let kernel = FakeKernel::new(1, 1);
        let mib = |file: &str, mib: u64| kernel.write(file, &format!("{}\n", mib << 20));
        mib("one/memory.limit_in_bytes", 300);
        mib("one/memory.usage_in_bytes", 210);
        kernel.write("one/memory.stat", "total_inactive_file 10485760\n");
        let group = MemoryGroup::at(kernel.path("one"));
        let left = |swap| group.left(Bytes::mib(300), Bytes::mib(swap)).unwrap().as_mib();
        assert_eq!((left(0), left(64)), (100, 164), "its kernel does not count swap");
        mib("one/memory.memsw.usage_in_bytes", 360);
        kernel.write("one/memory.memsw.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(group.used().unwrap().with_swap, None);
        assert_eq!((left(0), left(64)), (100, 164));
        mib("one/memory.memsw.limit_in_bytes", 400);
        let with_swap = Some((Bytes::mib(400), Bytes::mib(350)));
        assert_eq!(group.used(), Some(GroupUse { memory: Bytes::mib(200), with_swap }));
        assert_eq!((left(0), left(64)), (50, 50), "swap does not help");
        // 150 MiB more go to swap, and the total use does not fall.
        mib("one/memory.usage_in_bytes", 60);
        assert_eq!(left(0), 50);
    }

    #[test]
    fn a_container_sees_its_own_bound_at_the_top() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("sys/fs/cgroup/memory.max", "314572800\n");
        for text in ["0::/\n", "0::/not/there\n"] {
            kernel.write("proc/7/cgroup", text);
            let limits: Vec<_> = groups(&kernel).iter().map(MemoryGroup::limit).collect();
            assert_eq!(limits, [Some(Bytes::mib(300))], "{text}");
        }
    }

    #[test]
    fn report_h07_process_outside_of_a_container_is_not_bound_by_it() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("sys/fs/cgroup/memory.max", "536870912\n");
        kernel.write("sys/fs/cgroup/outside/memory.max", "536870912\n");
        for text in ["0::/../outside\n", "0::/..\n", "0::/../../machine/qemu-1\n"] {
            kernel.write("proc/7/cgroup", text);
            assert_eq!(groups(&kernel), [], "{text}");
        }
        kernel.write(&format!("{FIRST}/memory.limit_in_bytes"), "536870912\n");
        for (text, count) in [("4:memory:/../vm\n0::/\n", 0), ("4:memory:/\n0::/../vm\n", 1)] {
            kernel.write("proc/7/cgroup", text);
            assert_eq!(groups(&kernel).len(), count, "{text}");
        }
        assert_eq!(MemoryGroup::all(kernel.root().path(), "8", &mut Buffer::default()), []);
    }
}
