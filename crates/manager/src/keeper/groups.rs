//! Room that the control groups of a rescue's guests leave them.

use std::collections::BTreeMap;
use std::path::Path;

use counters::Bytes;
use hypervisor::ProcessView;

use super::Book;
use crate::groups::{Groups, Member, Rooms};

/// The most that a hypervisor has for itself, about: nothing measures that here.
const OWN_MOST: Bytes = Bytes::mib(64);

/// A guest and its groups.
struct Bounded {
    id: u64,
    groups: Groups,
    actual: Bytes,
    touched: Bytes,
}

/// The guests of a rescue, as far as their groups go.
pub(super) struct GuestGroups {
    own: Groups,
    guests: Vec<Bounded>,
}

impl GuestGroups {
    /// Those of a book.
    pub(super) fn of(book: &Book, root: &Path) -> GuestGroups {
        let guests = book.of_this_host().map(|held| {
            let (process, actual) = (held.process(), Bytes(held.held));
            let view = process.and_then(|process| ProcessView::open_under(root, process));
            let holds = view.and_then(|view| view.held());
            let of_guest = holds.map(|holds| holds.private.less(OWN_MOST));
            let touched = of_guest.unwrap_or(actual).min(actual);
            let groups = process.map(|process| Groups::of(root, &process.pid.to_string()));
            Bounded { id: held.id, groups: groups.unwrap_or_default(), actual, touched }
        });
        GuestGroups { guests: guests.collect(), own: Groups::of(root, "self") }
    }

    fn members(&self) -> impl Iterator<Item = (u64, Member<'_>)> {
        self.guests.iter().map(|guest| {
            let Bounded { id, groups, actual, touched } = guest;
            (*id, Member { groups, actual: *actual, touched: *touched, may_grow: true })
        })
    }

    fn rooms(&self) -> Rooms {
        let members: Vec<Member<'_>> = self.members().map(|(_, member)| member).collect();
        Rooms::of(&members, &self.own)
    }

    /// The most that each of those may have that are bounded.
    pub(super) fn most(&self) -> BTreeMap<u64, Bytes> {
        let rooms = self.rooms();
        self.members().filter_map(|(id, member)| Some((id, rooms.most(&member)?))).collect()
    }

    /// The part of the host's free memory that the group of this process and all guests has.
    pub(super) fn within(&self, free: Bytes) -> Bytes {
        self.rooms().common().map_or(free, |(_, left)| left.min(free))
    }
}
