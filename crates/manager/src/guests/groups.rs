//! Room that control groups leave their guests, and how the kernel ends those that have none.

use super::Guests;
use crate::groups::{Groups, Rooms};
use crate::guest::ManagedGuest;
use std::path::Path;

impl Guests {
    /// Looks for the manager's own groups, and at their bounds.
    pub(super) fn look_at_own_groups(&mut self) {
        self.own_groups = Groups::of(Path::new("/"), "self");
    }

    /// Reads the room that groups with a bound have left.
    pub(super) fn read_groups(&mut self) {
        self.rooms = Rooms::of(self.guests.values().map(ManagedGuest::member), &self.own_groups);
        for guest in self.guests.values_mut() {
            let most = self.rooms.most(&guest.member());
            guest.outside.most = most;
        }
    }
}

/// A sentence about a guest that is gone, by its hypervisor's word or the kernel's.
pub(super) fn end_of(guest: &ManagedGuest, why: &str) -> String {
    match guest.outside.groups.has_killed() {
        true => "its QEMU was killed: its control group has no more memory".to_owned(),
        false => format!("it is gone: {why}"),
    }
}
