//! Room that control groups leave their guests, and how the kernel ends those that have none.

use crate::groups::{Groups, Member, Rooms};
use crate::guest::ManagedGuest;
use hypervisor::Id;
use std::collections::BTreeMap;
use std::path::Path;

/// Looks for the manager's own groups, and at their bounds.
pub(super) fn own() -> Groups {
    Groups::of(Path::new("/"), "self")
}

/// Reads the room that groups with a bound have left, of guests that are awake: sleepers ask for
/// nothing, and each guest of a farm has such a group.
pub(super) fn read(guests: &mut BTreeMap<Id, ManagedGuest>, own: &Groups, now_ms: u64) -> Rooms {
    let is_awake =
        |guest: &ManagedGuest| guest.demand.is_urgent || !guest.is_idle_since_sample(now_ms);
    let members: Vec<Member<'_>> =
        guests.values().map(|guest| guest.member(is_awake(guest))).collect();
    let rooms = Rooms::of(&members, own);
    let most: Vec<_> =
        members.iter().map(|member| member.is_awake.then(|| rooms.most(member))).collect();
    for (guest, most) in guests.values_mut().zip(most) {
        guest.outside.most = most.unwrap_or(guest.outside.most);
    }
    rooms
}

/// A sentence about a guest that is gone, by its hypervisor's word or the kernel's.
pub(super) fn end_of(guest: &ManagedGuest, why: &str) -> String {
    match guest.outside.groups.killed() {
        Some(shortage) => format!("its QEMU was killed: {shortage} ({why})"),
        None => format!("it is gone: {why}"),
    }
}
