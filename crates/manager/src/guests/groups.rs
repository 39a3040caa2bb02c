//! Room that control groups leave their guests, and how the kernel ends those that have none.

use super::Guests;
use crate::effect::Now;
use crate::groups::{Groups, Member, Rooms};
use crate::guest::ManagedGuest;
use std::path::Path;

impl Guests {
    /// Looks for the manager's own groups, and at their bounds.
    pub(super) fn look_at_own_groups(&mut self) {
        self.own_groups = Groups::of(Path::new("/"), "self");
    }

    /// Reads the room that groups with a bound have left, of guests that are awake: sleepers
    /// ask for nothing, and each guest of a farm has such a group.
    pub(super) fn read_groups(&mut self, now: Now) {
        let is_awake = |guest: &ManagedGuest| {
            let tells = self.attention(guest.id).moves || guest.demand.is_urgent;
            tells || !guest.is_idle_since_sample(now.ms)
        };
        let member = |guest| ManagedGuest::member(guest, is_awake(guest));
        let members: Vec<Member<'_>> = self.guests.values().map(member).collect();
        let rooms = Rooms::of(&members, &self.own_groups);
        let of_awake = self.guests.keys().zip(&members).filter(|(_, member)| member.is_awake);
        let most: Vec<_> = of_awake.map(|(id, member)| (*id, rooms.most(member))).collect();
        for (id, most) in most {
            self.with(id, |guest| guest.outside.most = most);
        }
        self.rooms = rooms;
    }
}

/// A sentence about a guest that is gone, by its hypervisor's word or the kernel's.
pub(super) fn end_of(guest: &ManagedGuest, why: &str) -> String {
    match guest.outside.groups.has_killed() {
        true => "its QEMU was killed: its control group has no more memory".to_owned(),
        false => format!("it is gone: {why}"),
    }
}
