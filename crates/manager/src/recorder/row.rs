//! Recorded values of a guest: the manager's own, and unchanged reports of the hypervisor, the
//! balloon and the daemon. None is a conclusion of the policy.
//!
//! Sizes are capped at the guest's maximum. Without a daemon, the balloon's statistics are recorded
//! in the daemon's fields too, as far as they have the same meaning. A reader of
//! `own_available_bytes` need not know which of the two a guest has.

use crate::control::Scanned;
use crate::effect::Now;
use crate::guest::ManagedGuest;
use crate::guest::sample::{NS_PER_MS, bytes};
use base::KIB;
use model::{GuestField as G, Row};

/// Returns a guest's values by the manager, the hypervisor and the daemon.
pub(super) fn row_of(guest: &ManagedGuest, now: Now) -> Row<G> {
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
            (G::BlockReadBytes, Some(blocks.read.0)),
            (G::BlockWrites, Some(blocks.writes)),
            (G::BlockWriteBytes, Some(blocks.written.0)),
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

/// Sets the working set: memory that the guest could not do without, by one rule for all sources. A
/// balloon does not report the active part of the cache; the working set is then unknown.
pub(super) fn put_working_set(row: &mut Row<G>) {
    let [actual, available, active] =
        [G::Actual, G::OwnAvailable, G::OwnActiveFile].map(|field| row.get(field));
    let used = actual.zip(available).map(|(actual, available)| actual.saturating_sub(available));
    // The sum may exceed the guest's size: some of the active cache is not even available.
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

/// Sets values of the whole guest, as its daemon reported them with its processes.
pub(super) fn put_system(row: &mut Row<G>, system: &wire::System) {
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
pub(super) fn put_scan(row: &mut Row<G>, scanned: &Scanned) {
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
