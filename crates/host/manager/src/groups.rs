//! Limits of the control groups of guests' processes. A guest gets no more memory than its groups
//! allow.
//!
//! ```text
//!   bound of a group ─┬─ kept ─┬─ used: processes, without pages of files
//!                     │        └─ memory granted to its guests and not touched yet
//!                     └─ the rest: for its guests, to each the same part
//! ```
//!
//! Version 1 of control groups may also limit memory and swap together. Paged-out memory still
//! counts against that limit, so page-out makes no room below the limit. A guest that faults
//! paged-out memory in again takes no room either.
//!
//! A group that contains the manager and all of its guests is treated like the host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::Bytes;
use procfs::{AllKills, Buffer, KillWatch, MemoryGroup, Shortage};

/// Part of a limit that stays free, in thousandths. It equals a host's default reserve.
const KEPT_PERMILLE: u64 = 30;
/// Smallest size of that part, because a hypervisor may grow by some MiB between two readings.
const KEPT_MIN: Bytes = Bytes::mib(16);

/// Control groups of a guest's process.
#[derive(Debug, Default)]
pub struct Groups {
    /// Counts of the kernel's kills in all groups.
    kills: KillWatch,
    /// Groups with a limit.
    bounded: Vec<(MemoryGroup, Bytes)>,
    /// True if a group forbids swap.
    bars_swap: bool,
}

impl Groups {
    /// Looks up the groups of a process with their current limits.
    pub(crate) fn of(root: &Path, process: &str, kills: &AllKills) -> Groups {
        let all = MemoryGroup::all(root, process, &mut Buffer::default());
        let bound = |group: &MemoryGroup| Some((group.clone(), group.limit()?));
        Groups {
            bounded: all.iter().filter_map(bound).collect(),
            bars_swap: all.iter().any(MemoryGroup::bars_swap),
            kills: KillWatch::new(kills, process, all),
        }
    }

    /// Counts kills from now on. Kills in groups without a limit are not counted, so an idle guest
    /// in such groups costs nothing.
    pub(crate) fn renew_kills(&mut self, all: &AllKills) {
        if !self.bounded.is_empty() {
            self.kills.renew(all);
        }
    }

    /// Returns true if no part of the process may be swapped out.
    pub(crate) fn bars_swap(&self) -> bool {
        self.bars_swap
    }

    /// Returns the cause of an OOM kill since the last check, if there was one. Groups without a
    /// limit may contain other processes, so kills in these groups show nothing about the guest.
    pub(crate) fn killed(&self) -> Option<Shortage> {
        self.kills.killed().filter(|_| !self.bounded.is_empty())
    }
}

/// A guest as a member of its groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    /// Groups of the guest.
    pub groups: &'a Groups,
    /// Actual memory of the guest.
    pub actual: Bytes,
    /// Part of the actual memory that is certainly resident.
    pub touched: Bytes,
    /// Swapped part of the process, as far as it is known.
    pub swapped: Bytes,
    /// True if the guest may need more memory, so that the room in its groups must be read.
    pub may_grow: bool,
}

impl Member<'_> {
    /// Returns the part of the guest's memory that already counts against a limit of memory and
    /// swap together.
    fn touched_or_swapped(&self) -> Bytes {
        self.touched.plus(self.swapped).min(self.actual)
    }
}

/// Room below one limit of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    limit: Bytes,
    free: Bytes,
    /// Memory of the group's guests that the group's usage does not contain yet.
    untouched: Bytes,
}

impl Room {
    fn new(limit: Bytes, used: Bytes) -> Room {
        Room { limit, free: limit.less(used), untouched: Bytes::ZERO }
    }

    /// Returns the maximum size of a guest in a group of `guests` guests. The group's usage already
    /// contains `counted` of the guest's memory. An overcommitted group is treated like an
    /// overcommitted host: a guest's untouched memory does not reduce the room of other guests.
    fn most(&self, actual: Bytes, counted: Bytes, guests: u64) -> Bytes {
        let free = self.free.less(self.limit.permille(KEPT_PERMILLE).max(KEPT_MIN));
        let part = |free: Bytes| Bytes(free.0 / guests.max(1));
        match self.untouched <= free {
            true => actual.plus(part(free.less(self.untouched))),
            false => counted.plus(part(free)),
        }
    }
}

/// A group with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pot {
    memory: Room,
    /// Limit of memory and swap together, if there is one.
    with_swap: Option<Room>,
    guests: u64,
}

impl Pot {
    /// Returns a group with this limit, or `None` if the group is gone.
    fn of(group: &MemoryGroup, limit: Bytes) -> Option<Pot> {
        let used = group.used()?;
        let with_swap = used.with_swap.map(|(limit, used)| Room::new(limit, used));
        Some(Pot { memory: Room::new(limit, used.memory), with_swap, guests: 0 })
    }

    fn add(&mut self, member: &Member<'_>) {
        self.guests += 1;
        let Room { untouched, .. } = &mut self.memory;
        *untouched = untouched.plus(member.actual.less(member.touched));
        if let Some(Room { untouched, .. }) = &mut self.with_swap {
            *untouched = untouched.plus(member.actual.less(member.touched_or_swapped()));
        }
    }

    /// Returns the free memory below all limits.
    fn free(&self) -> Bytes {
        self.with_swap.map_or(self.memory.free, |both| both.free.min(self.memory.free))
    }

    fn most(&self, member: &Member<'_>) -> Bytes {
        let most = self.memory.most(member.actual, member.touched, self.guests);
        let counted = member.touched_or_swapped();
        let both = self.with_swap.map(|both| both.most(member.actual, counted, self.guests));
        both.map_or(most, |both| both.min(most))
    }
}

/// The room that the limits of all groups leave to their guests.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    pots: BTreeMap<PathBuf, Pot>,
    /// Group that is treated as the host.
    common: Option<PathBuf>,
}

impl Rooms {
    /// Reads the usage of each group with a guest that may grow. `own` are the manager's groups.
    pub(crate) fn of(members: &[Member<'_>], own: &Groups) -> Rooms {
        let read = members.iter().filter(|member| member.may_grow).map(|member| member.groups);
        let bounded = read.chain([own]).flat_map(|groups| &groups.bounded);
        let wanted: BTreeSet<&Path> = bounded.map(|(group, _)| group.dir()).collect();
        let mut pots: BTreeMap<PathBuf, Pot> = BTreeMap::new();
        for member in members {
            for (group, limit) in &member.groups.bounded {
                let dir = group.dir();
                if !wanted.contains(dir) {
                    continue;
                }
                if !pots.contains_key(dir) {
                    let Some(pot) = Pot::of(group, *limit) else { continue };
                    pots.insert(dir.to_path_buf(), pot);
                }
                if let Some(pot) = pots.get_mut(dir) {
                    pot.add(member);
                }
            }
        }
        let is_common =
            |dir: &Path| pots.get(dir).is_some_and(|pot: &Pot| pot.guests == members.len() as u64);
        let ours = own.bounded.iter().map(|(group, _)| group.dir()).filter(|dir| is_common(dir));
        let common = ours.min_by_key(|dir| pots.get(*dir).map(Pot::free));
        Rooms { common: common.map(Path::to_path_buf), pots }
    }

    /// Returns the limit and the free memory of the group that is treated as the host.
    pub(crate) fn common(&self) -> Option<(Bytes, Bytes)> {
        let pot = self.pots.get(self.common.as_ref()?)?;
        Some((pot.memory.limit, pot.free()))
    }

    /// Returns the largest size that a guest may have; `None` without a limit.
    pub(crate) fn most(&self, member: &Member<'_>) -> Option<Bytes> {
        let dirs = member.groups.bounded.iter().map(|(group, _)| group.dir());
        let others = dirs.filter(|dir| Some(*dir) != self.common.as_deref());
        others.filter_map(|dir| self.pots.get(dir)).map(|pot| pot.most(member)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::FakeKernel;

    const MIB: u64 = 1 << 20;

    fn group(kernel: &FakeKernel, name: &str, limit: u64, used: u64) {
        let dir = format!("sys/fs/cgroup/{name}");
        kernel.write(&format!("{dir}/memory.max"), &format!("{}\n", limit * MIB));
        kernel.write(&format!("{dir}/memory.current"), &format!("{}\n", used * MIB));
        kernel.write(&format!("{dir}/memory.events"), "oom 1\noom_kill 1\n");
    }

    fn groups(kernel: &FakeKernel, process: &str, path: &str) -> Groups {
        kernel.write(&format!("sys/fs/cgroup/{path}/cgroup.procs"), "");
        kernel.write(&format!("proc/{process}/cgroup"), &format!("0::/{path}\n"));
        Groups::of(kernel.root().path(), process, &AllKills::default())
    }

    fn member(groups: &Groups, actual: u64, touched: u64) -> Member<'_> {
        let (actual, touched) = (Bytes::mib(actual), Bytes::mib(touched));
        Member { groups, actual, touched, swapped: Bytes::ZERO, may_grow: true }
    }

    #[test]
    fn report_h07_guest_gets_no_more_than_its_group_has() {
        let kernel = FakeKernel::new(1, 1);
        let most = |used, actual, touched| {
            group(&kernel, "vms/one", 300, used);
            let groups = groups(&kernel, "7", "vms/one");
            let member = member(&groups, actual, touched);
            let rooms = Rooms::of(&[member], &Groups::default());
            assert_eq!(rooms.common(), None, "the manager is in another group");
            rooms.most(&member).map(Bytes::as_mib)
        };
        assert_eq!(most(200, 160, 160), Some(160 + 100 - 16));
        assert_eq!(most(200, 160, 100), Some(160 + 100 - 16 - 60), "the guest may touch the rest");
        assert_eq!(most(290, 253, 253), Some(253));
        assert_eq!(most(200, 400, 160), Some(160 + 84), "the group is overcommitted");
        let free = groups(&kernel, "8", "free");
        let rooms = Rooms::of(&[member(&free, 1, 1)], &Groups::default());
        assert_eq!(rooms.most(&member(&free, 1, 1)), None);
    }

    #[test]
    fn guest_gets_no_more_than_version_1_has_with_swap() {
        let kernel = FakeKernel::new(1, 1);
        let group = |file: &str, mib: u64| {
            let path = format!("sys/fs/cgroup/memory/vms/memory.{file}");
            kernel.write(&path, &format!("{}\n", mib << 20));
        };
        kernel.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        kernel.write("proc/7/cgroup", "4:memory:/vms\n0::/\n");
        group("limit_in_bytes", 300);
        group("usage_in_bytes", 200);
        let most = |touched, swapped| {
            let groups = Groups::of(kernel.root().path(), "7", &AllKills::default());
            let swapped = Bytes::mib(swapped);
            let member = Member { swapped, ..member(&groups, 250, touched) };
            let rooms = Rooms::of(&[member], &Groups::default());
            rooms.most(&member).map(Bytes::as_mib)
        };
        assert_eq!(most(190, 60), Some(250 + 100 - 16 - 60), "the kernel does not count swap");
        group("memsw.limit_in_bytes", 330);
        group("memsw.usage_in_bytes", 295);
        assert_eq!(most(190, 60), Some(250 + 35 - 16), "swapped memory counts");
        assert_eq!(most(190, 50), Some(250 + 35 - 16 - 10));
        // The host pages out 150 MiB of the guest. This makes no room below the limit that includes
        // swap.
        group("usage_in_bytes", 50);
        assert_eq!(most(40, 210), Some(250 + 35 - 16));
        group("memsw.usage_in_bytes", 320);
        assert_eq!(most(40, 210), Some(250), "the guest takes its memory back");
    }

    #[test]
    fn report_h07_guests_of_one_group_share_what_it_has() {
        let kernel = FakeKernel::new(1, 1);
        group(&kernel, "vms", 1000, 530);
        group(&kernel, "vms/two", 400, 200);
        let (one, two) = (groups(&kernel, "7", "vms/one"), groups(&kernel, "8", "vms/two"));
        let (one, two) = (member(&one, 300, 260), member(&two, 190, 190));
        let rooms = Rooms::of(&[one, two], &Groups::default());
        let most = |member| rooms.most(member).map(Bytes::as_mib);
        assert_eq!((most(&one), most(&two)), (Some(300 + 200), Some(190 + 184)));
    }

    #[test]
    fn report_h07_group_of_a_guest_that_sleeps_is_not_read() {
        let kernel = FakeKernel::new(1, 1);
        group(&kernel, "vms/one", 300, 200);
        let groups = groups(&kernel, "7", "vms/one");
        let asleep = Member { may_grow: false, ..member(&groups, 160, 160) };
        assert!(Rooms::of(&[asleep], &Groups::default()).pots.is_empty());
    }

    #[test]
    fn report_h07_group_of_manager_and_all_guests_is_their_host() {
        let kernel = FakeKernel::new(1, 1);
        group(&kernel, "all", 1000, 600);
        let own = groups(&kernel, "self", "all/manager");
        let (one, two) = (groups(&kernel, "7", "all/one"), groups(&kernel, "8", "all/two"));
        let (one, two) = (member(&one, 200, 200), member(&two, 200, 200));
        let rooms = Rooms::of(&[one, two], &own);
        assert_eq!(rooms.common(), Some((Bytes::mib(1000), Bytes::mib(400))));
        assert_eq!((rooms.most(&one), rooms.most(&two)), (None, None));
        let elsewhere = groups(&kernel, "9", "elsewhere");
        let rooms = Rooms::of(&[one, member(&elsewhere, 1, 1)], &own);
        assert_eq!(rooms.common(), None);
        assert_eq!(rooms.most(&one), Some(Bytes::mib(200 + 400 - 30)));
    }

    #[test]
    fn report_h07_kill_is_seen_in_the_nearest_group_that_is_left() {
        let kernel = FakeKernel::new(1, 1);
        group(&kernel, "vms", 1000, 500);
        group(&kernel, "vms/one", 300, 290);
        kernel.write("sys/fs/cgroup/vms/cgroup.procs", "");
        kernel.write("sys/fs/cgroup/vms/one/cgroup.procs", "7\n");
        let groups = groups(&kernel, "7", "vms/one");
        assert_eq!(groups.killed(), None);
        kernel.write("sys/fs/cgroup/vms/memory.events", "oom 2\noom_kill 2\n");
        assert_eq!(groups.killed(), None, "another process was killed");
        std::fs::remove_dir_all(kernel.path("sys/fs/cgroup/vms/one")).unwrap();
        assert_eq!(groups.killed(), Some(Shortage::Group), "the group is gone with the guest");
        kernel.write("sys/fs/cgroup/vms/memory.events", "oom 1\noom_kill 2\n");
        assert_eq!(groups.killed(), Some(Shortage::Host), "no group was short");
        std::fs::create_dir(kernel.path("sys/fs/cgroup/vms/two")).unwrap();
        assert_eq!(groups.killed(), Some(Shortage::Unknown), "perhaps another process");
    }

    #[test]
    fn report_h07_group_that_may_not_swap_is_seen() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("sys/fs/cgroup/vms/memory.swap.max", "0\n");
        assert!(groups(&kernel, "7", "vms/one").bars_swap());
        kernel.write("sys/fs/cgroup/vms/memory.swap.max", "max\n");
        assert!(!groups(&kernel, "7", "vms/one").bars_swap());
    }
}
