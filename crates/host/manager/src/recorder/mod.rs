//! Values of the manager about guests and host, which the monitor records once a second. These are
//! the manager's own values, and unchanged reports of the hypervisor, the balloon and the daemon.
//! No recorded value is computed by the policy.
//!
//! Sizes are capped at the guest's maximum. Without a daemon, the balloon's statistics are recorded
//! in the daemon's fields too, as far as they have the same meaning. A reader of
//! `own_available_bytes` need not know whether a guest has a daemon.

#[cfg(test)]
mod tests;

use crate::control::Scanned;
use crate::effect::{Effect, Now};
use crate::guest::ManagedGuest;
use crate::guest::sample::{NS_PER_MS, bytes};
use crate::monitor::Known;
use crate::scan::{self, Scans};
use crate::world::World;
use base::{Bytes, KIB};
use collect::GuestProcess;
use hypervisor::{Id, RunState};
use model::{GuestField as G, GuestIdentity, HostField, PassInput, Row};
use std::collections::BTreeMap;
use std::sync::Arc;

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
            let mut row = row_of(guest, now);
            let swapped = guest.outside.seen.swapped;
            let compressed = machine.zip(swapped).and_then(|(m, size)| m.compressed_of(size));
            row.set(G::Compressed, compressed.map(|size| size.0));
            if let Some((at_ms, scanned)) = scans.last(guest.id) {
                put_scan(&mut row, scanned);
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

/// Returns a guest's values from the manager, the hypervisor and the daemon.
fn row_of(guest: &ManagedGuest, now: Now) -> Row<G> {
    let mut row = Row::default();
    let vcpus = guest.found.vcpu_tids.len() as u64;
    let reports = guest.found.can.page_reporting == Some(true);
    row.extend([
        (G::Vcpus, Some(vcpus).filter(|count| *count > 0)),
        (G::Memory, Some(guest.found.memory.0)),
        (G::Actual, Some(guest.memory.actual.0)),
        (G::Target, guest.memory.target.map(|size| size.0)),
        (G::Minimum, Some(guest.limits.min.0)),
        (G::Reported, reports.then_some(guest.memory.reported.0)),
        (G::Parked, guest.cpu.parked_ms(now.ms).checked_mul(NS_PER_MS)),
    ]);
    let most = guest.found.memory.0;
    let agent = guest.daemon.link.agent();
    // The last sample of a daemon that has gone is not recorded again.
    if guest.memory.is_sample_balloons() || agent.hello().is_some() {
        row.overlay(&guest.memory.sample);
    }
    put_working_set(&mut row);
    // z/VM reports resident memory without a split into private and shared.
    if let Some(held) = guest.memory.held.filter(|_| guest.memory.counted.is_none()) {
        row.extend([
            (G::Private, Some(held.private.0)),
            (G::Together, Some(held.shared.0)),
            (G::Hypervisor, Some(held.own.size.0)),
        ]);
    }
    if let Some(blocks) = guest.blocks {
        row.extend([
            (G::BlockReads, Some(blocks.reads)),
            (G::BlockReadBytes, Some(blocks.read_bytes)),
            (G::BlockWrites, Some(blocks.writes)),
            (G::BlockWriteBytes, Some(blocks.write_bytes)),
        ]);
    }
    if let Some(status) = agent.status() {
        put_status(&mut row, status, most);
    }
    if let Some(system) = agent.system() {
        put_system(&mut row, system);
    }
    let Some(counted) = &guest.memory.counted else { return row };
    let mut all = counted.row();
    all.overlay(&row);
    all
}

/// Sets the working set: memory that the guest could not do without, by one rule for all sources.
/// Without a daemon the working set is unknown, because a balloon does not report the active part
/// of the cache.
fn put_working_set(row: &mut Row<G>) {
    let [actual, available, active] =
        [G::Actual, G::OwnAvailable, G::OwnActiveFile].map(|field| row.get(field));
    let used = actual.zip(available).map(|(actual, available)| actual.saturating_sub(available));
    // The sum may exceed the guest's size, because active cache that is not available counts twice.
    row.set(G::OwnWorkingSet, used.zip(active).map(|(used, active)| used.saturating_add(active)));
}

/// Sets CPUs and rules as reported by the daemon.
fn put_status(row: &mut Row<G>, status: &wire::Status, most: u64) {
    let size = |kib: u64| Some(kib.saturating_mul(KIB).min(most));
    row.extend([
        (G::OwnCpus, Some(status.cpus_online.into())),
        (G::OwnCpusPresent, Some(status.cpus_present.into())),
        (G::OwnBusy, Some(status.busy_ticks)),
        (G::OwnIdle, Some(status.idle_ticks)),
        (G::OwnSteal, Some(status.steal_ticks)),
        (G::OwnPool, Some(status.pool_pages)),
        (G::OwnRulesTotal, size(status.mem_total_kib)),
        (G::OwnRulesFree, size(status.mem_free_kib)),
        (G::OwnRulesAvailable, size(status.mem_available_kib)),
        (G::OwnPlugs, Some(status.plugs.into())),
        (G::OwnUnplugs, Some(status.unplugs.into())),
        (G::OwnGrows, Some(status.grows.into())),
        (G::OwnShrinks, Some(status.shrinks.into())),
        (G::OwnSettled, Some(status.settled.into())),
    ]);
}

/// Sets values of the whole guest, which its daemon reported together with its processes.
fn put_system(row: &mut Row<G>, system: &wire::System) {
    let root = system.root_total_kib.zip(system.root_available_kib);
    let used = root.filter(|(total, _)| *total > 0).map(|(total, available)| {
        let used = u128::from(total.saturating_sub(available)) * 1000 / u128::from(total);
        u64::try_from(used).unwrap_or(1000)
    });
    row.extend([
        (G::OwnLoad, system.load_1_permille),
        (G::OwnLoad5, system.load_5_permille),
        (G::OwnLoad15, system.load_15_permille),
        (G::OwnRunning, system.running),
        (G::OwnBlocked, system.blocked),
        (G::OwnRootUsed, used),
        (G::OwnRootTotal, bytes(system.root_total_kib)),
        (G::OwnRootAvailable, bytes(system.root_available_kib)),
        (G::OwnReceived, system.received_bytes),
        (G::OwnReceivedPackets, system.received_packets),
        (G::OwnSent, system.sent_bytes),
        (G::OwnSentPackets, system.sent_packets),
    ]);
}

/// Sets the guest kernel's counts of all tasks, and the CPU time of the virtual CPUs at that time.
fn put_scan(row: &mut Row<G>, scanned: &Scanned) {
    let totals = &scanned.totals;
    row.extend([
        (G::OwnRun, totals.run_ns),
        (G::RunThen, scanned.host.vcpu_run_ns),
        (G::OwnDispatches, totals.dispatches),
        (G::OwnContextSwitches, totals.context_switches),
        (G::OwnForks, totals.forks),
        (G::OwnInterrupts, totals.interrupts),
        (G::OwnSoftInterrupts, totals.soft_interrupts),
        (G::OwnTimers, totals.timers),
        (G::OwnInterruptTime, totals.interrupt_ticks),
        (G::OwnTasks, totals.tasks),
    ]);
}
