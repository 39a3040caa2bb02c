//! The manager's view of guests and host, sent to the monitor once a second.

mod row;
#[cfg(test)]
mod tests;

use crate::effect::{Effect, Now};
use crate::guest::ManagedGuest;
use crate::scan::{self, Scans};
use crate::world::World;
use collect::ManagerView;
use counters::Bytes;
use hypervisor::{Id, RunState};
use model::{GuestField, HostField, PassInput, Row};
use std::collections::BTreeMap;

/// Interval between requests for disk counters of running guests.
const BLOCKS_MS: u64 = 15_000;

/// Maximum number of passes that wait for the next second.
const PASSES_MAX: usize = 256;

/// Times of the last recorded reports, so that each report is recorded once, and inputs of passes
/// since the last second.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    scans_ms: BTreeMap<Id, u64>,
    blocks_ms: BTreeMap<Id, u64>,
    passes: Vec<PassInput>,
}

impl Recorder {
    /// Stores the inputs of a pass. A gap in the numbers of the passes shows that a pass is
    /// missing.
    pub(crate) fn passed(&mut self, pass: PassInput) {
        if self.passes.len() < PASSES_MAX {
            self.passes.push(pass);
        }
    }

    /// Sends a view once a second, with the daemons' reports of processes and the state of the
    /// manager itself.
    pub(crate) fn step(
        &mut self,
        world: &World<'_>,
        scans: &Scans,
        mut host: Row<HostField>,
        now: Now,
    ) -> Vec<Effect> {
        self.scans_ms.retain(|id, _| world.guests.get(*id).is_some());
        self.blocks_ms.retain(|id, _| world.guests.get(*id).is_some());
        let mut effects = Vec::new();
        let runs = |guest: &&ManagedGuest| {
            guest.state == RunState::Running && guest.answers && !guest.is_idle_since_sample(now.ms)
        };
        for guest in world.guests.iter().filter(runs) {
            let is_due = self.blocks_ms.get(&guest.id).is_none_or(|at| now.ms >= at + BLOCKS_MS);
            if is_due {
                self.blocks_ms.insert(guest.id, now.ms);
                effects.push(Effect::AskBlocks(guest.id));
            }
        }
        let ballooned = world.guests.iter().filter_map(|guest| guest.memory.gained_by_balloon());
        host.set(HostField::Ballooned, Some(ballooned.fold(Bytes::ZERO, Bytes::plus).0));
        host.set(HostField::SetPoint, Some(world.plan.set_point.0));
        let owners = world.owners();
        let spare = world.host.available(world.settings, owners.sum());
        host.set(HostField::Spare, spare.map(|size| size.0));
        host.set(HostField::Together, Some(owners.shared.0));
        if world.settings.zvm.is_on() {
            // The monitor reads only this machine, which is itself a guest of the managed host.
            let machine = world.host.machine();
            host.set(HostField::Total, machine.map(|machine| machine.total.0));
            host.set(HostField::Available, machine.map(|machine| machine.available.0));
        }
        effects.push(Effect::Record(Box::new(self.view(world, scans, host, now))));
        effects
    }

    fn view(
        &mut self,
        world: &World<'_>,
        scans: &Scans,
        host: Row<HostField>,
        now: Now,
    ) -> ManagerView {
        let mut guests = Vec::with_capacity(world.guests.len());
        for guest in world.guests.iter() {
            let scanned = scans.last(guest.id);
            let news = scanned.filter(|(at_ms, _)| self.scans_ms.get(&guest.id) != Some(at_ms));
            let processes = news.map(|(at_ms, scanned)| {
                self.scans_ms.insert(guest.id, at_ms);
                scan::processes(scanned)
            });
            let mut known = row::known_of(guest, processes.unwrap_or_default(), now);
            let swapped = guest.outside.seen.swapped;
            let machine = world.host.machine();
            let compressed = machine.zip(swapped).and_then(|(m, size)| m.compressed_of(size));
            known.row.set(GuestField::Compressed, compressed.map(|size| size.0));
            if let Some((_, scanned)) = scanned {
                row::put_scan(&mut known.row, scanned);
            }
            guests.push(known);
        }
        let machine = world.host.machine();
        let is_short = machine.is_some_and(|machine| machine.available < world.plan.reserve);
        let passes = std::mem::take(&mut self.passes);
        ManagerView { at_ms: now.wall_ms, now_ms: now.ms, is_short, host, guests, passes }
    }
}
