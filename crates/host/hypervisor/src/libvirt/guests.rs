//! All domains of a connection, by id and by UUID.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use virtrpc::{DOMAINS_MAX, Domain, Uuid};

use super::guest::LibvirtGuest;
use crate::Id;

#[derive(Debug, Default)]
pub(super) struct Guests {
    all: BTreeMap<Id, LibvirtGuest>,
    by_uuid: HashMap<Uuid, Id>,
    /// Guests with pending requests, in order.
    queue: VecDeque<Id>,
    /// Times of the next checks.
    timers: BTreeSet<(u64, Id)>,
}

impl Guests {
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut LibvirtGuest> {
        self.all.get_mut(&id)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut LibvirtGuest> {
        self.all.values_mut()
    }

    /// Returns the message about the first guest that is ignored.
    pub(super) fn first_ignored(&self) -> Option<&String> {
        self.all.values().find_map(|guest| guest.ignored.as_ref())
    }

    pub(super) fn by_uuid(&mut self, uuid: &Uuid) -> Option<&mut LibvirtGuest> {
        self.all.get_mut(self.by_uuid.get(uuid)?)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn ids(&self) -> Vec<Id> {
        self.all.keys().copied().collect()
    }

    /// Returns the guests that are missing in a list of domains.
    pub(super) fn not_in(&self, list: &[Domain]) -> Vec<Id> {
        let listed: BTreeSet<_> = list.iter().map(|domain| domain.uuid).collect();
        let missing = self.all.values().filter(|guest| !listed.contains(&guest.domain.uuid));
        missing.map(|guest| guest.id).collect()
    }

    pub(super) fn has_room(&self) -> bool {
        self.all.len() < DOMAINS_MAX
    }

    pub(super) fn add(&mut self, guest: LibvirtGuest) {
        let id = guest.id;
        self.by_uuid.insert(guest.domain.uuid, id);
        self.all.insert(id, guest);
        self.queue(id);
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<LibvirtGuest> {
        let guest = self.all.remove(&id)?;
        self.by_uuid.remove(&guest.domain.uuid);
        if let Some(at_ms) = guest.turn.armed_ms {
            self.timers.remove(&(at_ms, id));
        }
        if guest.turn.is_queued {
            self.queue.retain(|queued| *queued != id);
        }
        Some(guest)
    }

    /// Queues a guest for its pending requests, and sets its timer.
    pub(super) fn queue(&mut self, id: Id) {
        let Some(guest) = self.all.get_mut(&id) else { return };
        if !guest.turn.is_queued {
            guest.turn.is_queued = true;
            self.queue.push_back(id);
        }
        let next_ms = guest.next_ms();
        if next_ms == guest.turn.armed_ms {
            return;
        }
        if let Some(at_ms) = std::mem::replace(&mut guest.turn.armed_ms, next_ms) {
            self.timers.remove(&(at_ms, id));
        }
        if let Some(at_ms) = next_ms {
            self.timers.insert((at_ms, id));
        }
    }

    pub(super) fn next_queued(&mut self) -> Option<&mut LibvirtGuest> {
        let guest = self.all.get_mut(&self.queue.pop_front()?)?;
        guest.turn.is_queued = false;
        Some(guest)
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.timers.first().map(|(at_ms, _)| *at_ms)
    }

    /// Takes out a guest with an expired timer.
    pub(super) fn next_due(&mut self, now_ms: u64) -> Option<&mut LibvirtGuest> {
        let first = *self.timers.first().filter(|(at_ms, _)| *at_ms <= now_ms)?;
        self.timers.remove(&first);
        let guest = self.all.get_mut(&first.1)?;
        guest.turn.armed_ms = None;
        Some(guest)
    }
}
