//! Room in the control groups of guests, and the OOM kills in these groups.

use crate::groups::{Groups, Member, Rooms};
use crate::guest::ManagedGuest;
use hypervisor::{Id, RunState};
use procfs::{AllKills, Root, Shortage};
use std::collections::BTreeMap;
use std::path::Path;

/// Number of turns in which each sleeping guest is read once. A hundred sleeping guests cost two
/// reads a second.
const SLEEPERS: u64 = 12;

/// Looks up the manager's own groups with their limits.
pub(super) fn own() -> Groups {
    Groups::of(Path::new("/"), "self", &AllKills::default())
}

/// Turns in which the processes of guests are read.
#[derive(Debug, Default)]
pub(super) struct Looks {
    turn: u64,
    /// Number of processes that the kernel had killed at the last turn.
    killed: Option<u64>,
}

impl Looks {
    /// Reads the processes of guests. For a sleeping guest, only the kernel's kills are counted and
    /// KSM's merged pages are read, both from time to time. After a kill of any process, kills are
    /// counted at once. A kill of another process then does not later count as the cause of the
    /// guest's end.
    pub(super) fn look(&mut self, guests: &mut BTreeMap<Id, ManagedGuest>, now_ms: u64) {
        self.turn += 1;
        self.read(&AllKills::read(&Root::default()), guests, now_ms);
    }

    fn read(&mut self, kills: &AllKills, guests: &mut BTreeMap<Id, ManagedGuest>, now_ms: u64) {
        let before = std::mem::replace(&mut self.killed, kills.total());
        let is_same = before.is_some() && before == self.killed;
        for guest in guests.values_mut() {
            if guest.may_grow(now_ms) {
                guest.outside.look(now_ms, kills);
                continue;
            }
            let is_due = guest.id.0 % SLEEPERS == self.turn % SLEEPERS;
            if is_due || !is_same {
                guest.outside.renew_kills(kills);
            }
            if is_due {
                guest.outside.look_at_merged();
            }
        }
    }
}

/// Looks up the groups of one guest with their limits.
pub(super) fn renew(guest: &mut ManagedGuest) {
    guest.outside.look_at_groups(&AllKills::read(&Root::default()));
}

/// Reads the room in limited groups, for guests that are awake, must grow or may be released. Other
/// sleeping guests need no memory. Their groups are not read, because a farm has a limited group
/// for each of its guests.
pub(super) fn read(guests: &mut BTreeMap<Id, ManagedGuest>, own: &Groups, now_ms: u64) -> Rooms {
    let may_grow = |guest: &ManagedGuest| guest.may_grow(now_ms) || guest.may_be_released();
    let members: Vec<Member<'_>> =
        guests.values().map(|guest| guest.member(may_grow(guest))).collect();
    let rooms = Rooms::of(&members, own);
    let most: Vec<_> =
        members.iter().map(|member| member.may_grow.then(|| rooms.most(member))).collect();
    for (guest, most) in guests.values_mut().zip(most) {
        guest.outside.most = most.unwrap_or(guest.outside.most);
    }
    rooms
}

/// Returns a sentence about the end of a guest, from the hypervisor's report or the kernel's count
/// of kills. A kill that may concern another process is not reported for a guest that had ended
/// before.
pub(super) fn end_of(guest: &ManagedGuest, why: &str) -> String {
    let has_ended = guest.state == RunState::Dead;
    let killed = guest.outside.groups.killed();
    match killed.filter(|shortage| !(has_ended && *shortage == Shortage::Unknown)) {
        Some(shortage) => format!("its QEMU {shortage} ({why})"),
        None => format!("it is gone: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::{GuestEvent, Override};
    use crate::guests::testing::OneGuest;
    use base::Bytes;
    use policy::arbiter::Mode;
    use procfs::testing::FakeKernel;

    #[test]
    fn report_h07_sleeper_that_grows_is_bounded_by_its_group() {
        let kernel = FakeKernel::new(1, 1);
        let bound = |free: u64| {
            kernel.write("sys/fs/cgroup/one/memory.max", &format!("{}\n", 2000 << 20));
            let used = (2000 - free) << 20;
            kernel.write("sys/fs/cgroup/one/memory.current", &format!("{used}\n"));
        };
        kernel.write("sys/fs/cgroup/one/cgroup.procs", "");
        kernel.write("proc/7/cgroup", "0::/one\n");
        bound(1000);
        let mut one = OneGuest::start(Bytes::mib(1024), Bytes::mib(512));
        for second in 1..10 {
            one.tell(second);
            one.step(GuestEvent::Tick, second);
        }
        let id = one.id;
        let mut most = |over: Override, free| {
            bound(free);
            one.step(GuestEvent::Override(id, over), 9);
            let guest = one.guests.guests.get_mut(&id).unwrap();
            guest.outside.groups = Groups::of(kernel.root().path(), "7", &AllKills::default());
            guest.memory.held = None;
            read(&mut one.guests.guests, &Groups::default(), 9_000);
            one.guests.get(id).unwrap().outside.most.map(Bytes::as_mib)
        };
        assert_eq!(most(Override::default(), 500), None, "a sleeper asks for nothing");
        let has = Some(Bytes::mib(512));
        let min = Override { min: Some(Bytes::mib(800)), ..Override::default() };
        assert_eq!(most(min, 500), Some(512 + 500 - 60));
        assert_eq!(most(Override { min: has, ..min }, 400), Some(952), "no change of size");
        let pinned = |size| Override { mode: Some(Mode::Pinned(size)), ..Override::default() };
        assert_eq!(most(pinned(Bytes::mib(800)), 300), Some(512 + 300 - 60));
        assert_eq!(most(pinned(Bytes::mib(512)), 200), Some(752));
        let released = Override { mode: Some(Mode::Released), ..Override::default() };
        assert_eq!(most(released, 100), Some(512 + 100 - 60));
        // A sleeper with a balloon may be released, but not beyond the room of its group.
        one.step(GuestEvent::Override(id, Override::default()), 9);
        bound(600);
        let guest = one.guests.guests.get_mut(&id).unwrap();
        guest.outside.groups = Groups::of(kernel.root().path(), "7", &AllKills::default());
        guest.memory.had(Bytes::mib(1024), 9_000);
        read(&mut one.guests.guests, &Groups::default(), 9_000);
        let most = one.guests.get(id).unwrap().outside.most;
        assert_eq!(most, Some(Bytes::mib(512 + 600 - 60)));
    }

    /// KSM has merged no pages of this process.
    #[test]
    fn merged_pages_of_sleepers_are_looked_at_in_turn() {
        let mut one = OneGuest::start(Bytes::mib(1024), Bytes::mib(512));
        for second in 1..10 {
            one.tell(second);
            one.step(GuestEvent::Tick, second);
        }
        let id = one.id;
        let mut turns = Looks::default();
        let looks = (0..2 * SLEEPERS).filter(|_| {
            let guest = one.guests.guests.get_mut(&id).unwrap();
            guest.outside.apart.merged = Bytes::mib(7);
            turns.look(&mut one.guests.guests, 9_000);
            one.guests.get(id).unwrap().outside.apart.merged == Bytes::ZERO
        });
        assert_eq!(looks.count(), 2, "one turn in twelve");
    }

    /// A sleeper's groups are read in one turn of twelve, and after each kill.
    #[test]
    fn kills_near_a_sleeper_are_counted_at_once() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("proc/7/cgroup", "0::/vms\n");
        kernel.write("sys/fs/cgroup/vms/memory.max", &format!("{}\n", 2000 << 20));
        kernel.write("sys/fs/cgroup/vms/cgroup.procs", "7\n");
        let kill = |count: u64| {
            let text = format!("oom {count}\noom_kill {count}\n");
            kernel.write("sys/fs/cgroup/vms/memory.events", &text);
            kernel.write("proc/vmstat", &format!("oom_kill {count}\n"));
        };
        kill(0);
        let mut one = OneGuest::start(Bytes::mib(1024), Bytes::mib(512));
        for second in 1..10 {
            one.tell(second);
            one.step(GuestEvent::Tick, second);
        }
        let groups = Groups::of(kernel.root().path(), "7", &AllKills::default());
        one.guests.guests.get_mut(&one.id).unwrap().outside.groups = groups;
        // Not the guest's own turn.
        let mut looks = Looks { turn: one.id.0 + 1, killed: None };
        let mut turn = |one: &mut OneGuest| {
            looks.read(&AllKills::read(&kernel.root()), &mut one.guests.guests, 9_000);
            one.guests.get(one.id).unwrap().outside.groups.killed().is_some()
        };
        assert!(!turn(&mut one));
        kill(1);
        assert!(!turn(&mut one), "another process was killed, and the count is renewed");
        // The host's count of kills is the same, so the group is not read.
        kernel.write("sys/fs/cgroup/vms/memory.events", "oom 2\noom_kill 2\n");
        assert!(turn(&mut one));
        // Kernels before 4.13 have no such count, so each turn reads the groups.
        kernel.write("proc/vmstat", "");
        assert!(!turn(&mut one));
    }

    /// Returns the note about the end of a guest. A process in the guest's group was killed before
    /// the end. With `is_looked_at`, the manager has counted this kill before the end.
    fn end(is_shut_down: bool, is_looked_at: bool) -> String {
        let kernel = FakeKernel::new(1, 1);
        let kills = |count: u64| {
            let text = format!("oom {count}\noom_kill {count}\n");
            kernel.write("sys/fs/cgroup/vms/memory.events", &text);
        };
        kernel.write("proc/7/cgroup", "0::/vms\n");
        kernel.write("sys/fs/cgroup/vms/memory.max", &format!("{}\n", 2000 << 20));
        kernel.write("sys/fs/cgroup/vms/cgroup.procs", "7\n8\n");
        kills(1);
        let mut one = OneGuest::start(Bytes::mib(1024), Bytes::mib(512));
        let guest = one.guests.guests.get_mut(&one.id).unwrap();
        guest.outside.groups = Groups::of(kernel.root().path(), "7", &AllKills::default());
        kills(2);
        if is_looked_at {
            guest.outside.groups.renew_kills(&AllKills::default());
        }
        if is_shut_down {
            guest.state = RunState::Dead;
        }
        end_of(guest, "it shut down")
    }

    #[test]
    fn end_in_order_is_not_told_as_a_kill() {
        let in_order = "it is gone: it shut down";
        assert_eq!(end(true, false), in_order, "another process was killed");
        assert_eq!(end(false, true), in_order, "the kill was long before the end");
        assert!(end(false, false).starts_with("its QEMU may have been killed"));
    }
}
