//! The inputs of each pass, for recordings. A replay can decide the pass again from its inputs.

use super::engine::Seen;
use crate::effect::Now;
use crate::world::World;
use hypervisor::Id;
use model::{PassEvent, PassGuest, PassInput};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of events that wait for the next pass. A guest in a reboot loop must not fill the
/// memory.
const EVENTS_MAX: usize = 1_000;

/// Number of passes, and the events since the last pass.
#[derive(Debug, Default)]
pub(super) struct Trace {
    number: u64,
    events: Vec<PassEvent>,
}

impl Trace {
    pub(super) fn note(&mut self, event: PassEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }

    /// Returns the record of a pass with its inputs.
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
