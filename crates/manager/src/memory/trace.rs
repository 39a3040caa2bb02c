//! What each pass knew, for the recordings: so it can be decided again.

use super::engine::Seen;
use crate::effect::Now;
use crate::world::World;
use hypervisor::Id;
use model::{PassEvent, PassGuest, PassInput};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Events that wait for the next pass at most: a guest that starts again and again fills no memory.
const EVENTS_MAX: usize = 1_000;

/// Counts passes, and notes what happens between them.
#[derive(Debug, Default)]
pub(super) struct Trace {
    number: u64,
    events: Vec<PassEvent>,
}

impl Trace {
    /// Something that the policy was told.
    pub(super) fn note(&mut self, event: PassEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }

    /// A pass that knew this.
    pub(super) fn pass(&mut self, seen: Seen, world: &World<'_>, now: Now) -> PassInput {
        let number = self.number;
        self.number += 1;
        let who = |key| world.guests.get(Id(key)).map(|guest| Arc::clone(guest.who()));
        let guests: BTreeMap<u64, PassGuest> = seen
            .guests
            .into_iter()
            .map(|(key, row)| (key.0, PassGuest { who: who(key.0).unwrap_or_default(), row }))
            .collect();
        let events = std::mem::take(&mut self.events);
        PassInput { number, at_ms: now.wall_ms, now_ms: now.ms, host: seen.host, guests, events }
    }
}
