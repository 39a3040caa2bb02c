//! Values of the manager about guests and host, for the monitor once a second.

mod row;
#[cfg(test)]
mod tests;

use crate::effect::{Effect, Now};
use crate::guest::ManagedGuest;
use crate::monitor::Known;
use crate::scan::{self, Scans};
use crate::world::World;
use collect::GuestProcess;
use counters::Bytes;
use hypervisor::{Id, RunState};
use model::{GuestField, GuestIdentity, HostField, PassInput, Row};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Interval between requests for disk counters of running guests.
const BLOCKS_MS: u64 = 15_000;

/// Passes that wait for the next second, at most.
const PASSES_MAX: usize = 256;

/// Times of the last recorded reports, so that each is recorded once, and inputs of passes since
/// the last second.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    scans_ms: BTreeMap<Id, u64>,
    blocks_ms: BTreeMap<Id, u64>,
    passes: Vec<PassInput>,
}

impl Recorder {
    /// Takes the inputs of a pass. A missing pass shows by the numbers of the others.
    pub(crate) fn passed(&mut self, pass: PassInput) {
        if self.passes.len() < PASSES_MAX {
            self.passes.push(pass);
        }
    }

    /// Requests the disk counters of guests that run.
    pub(crate) fn asks(&mut self, world: &World<'_>, now: Now) -> Vec<Effect> {
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
        effects
    }

    /// Returns the values of a second, with the daemons' reports of processes and the state of the
    /// manager itself.
    pub(crate) fn known(
        &mut self,
        world: &World<'_>,
        scans: &Scans,
        mut host: Row<HostField>,
        now: Now,
    ) -> Known {
        let ballooned = world.guests.iter().filter_map(|guest| guest.memory.gained_by_balloon());
        host.set(HostField::Ballooned, Some(ballooned.fold(Bytes::ZERO, Bytes::plus).0));
        host.set(HostField::SetPoint, Some(world.plan.set_point.0));
        let owners = world.owners();
        let spare = world.host.available(world.settings, owners.sum());
        host.set(HostField::Spare, spare.map(|size| size.0));
        host.set(HostField::Together, Some(owners.shared.0));
        let machine = world.host.machine();
        if world.settings.zvm.is_on() {
            // The monitor reads this machine, which is a guest itself.
            host.set(HostField::Total, machine.map(|machine| machine.total.0));
            host.set(HostField::Available, machine.map(|machine| machine.available.0));
        }
        let is_short = machine.is_some_and(|machine| machine.available < world.plan.reserve);
        let passes = std::mem::take(&mut self.passes);
        let mut known = Known { is_short, passes, ..Known::default() };
        known.moment.host = host;
        self.scans_ms.retain(|id, _| world.guests.get(*id).is_some());
        for guest in world.guests.iter() {
            let mut row = row::row_of(guest, now);
            let swapped = guest.outside.seen.swapped;
            let compressed = machine.zip(swapped).and_then(|(m, size)| m.compressed_of(size));
            row.set(GuestField::Compressed, compressed.map(|size| size.0));
            if let Some((at_ms, scanned)) = scans.last(guest.id) {
                row::put_scan(&mut row, scanned);
                let is_news = self.scans_ms.insert(guest.id, at_ms) != Some(at_ms);
                let processes = is_news.then(|| scan::processes(scanned));
                if let Some(processes) = processes.filter(|processes| !processes.is_empty()) {
                    known.moment.processes.insert(GuestIdentity::clone(guest.who()), processes);
                }
            }
            known.moment.guests.insert(GuestIdentity::clone(guest.who()), row);
            known.guests.push(GuestProcess {
                id: guest.id.0,
                who: Arc::clone(guest.who()),
                process: guest.found.process,
                vcpu_tids: guest.found.vcpu_tids.as_slice().into(),
                vcpus_ran: guest.cpu.just_read(now.ms).to_vec(),
            });
        }
        known
    }
}
