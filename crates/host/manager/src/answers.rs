//! Responses of the control socket about the manager and its guests.

use crate::control::{
    Failure, GuestRow, GuestRunState, HostRow, Inputs, JournalRow, KsmRow, LeverRow, OwnersRow, Ps,
    Status,
};
use crate::effect::Now;
use crate::guest::{MUTE, ManagedGuest};
use crate::memory::{Memory, context_of, value};
use crate::world::World;
use base::{Bytes, natural};
use hypervisor::RunState;
use model::counters::HostCounter;
use policy::arbiter::{Mode, Usable};
use std::collections::BTreeMap;
use std::path::Path;

/// State of the manager from which responses are made.
pub(crate) struct View<'a> {
    pub world: World<'a>,
    pub memory: &'a Memory,
    pub ksm: KsmRow,
    /// Sentence about a manager that changes nothing.
    pub watching: Option<String>,
    pub now: Now,
}

/// Returns the host and all guests, sorted by name.
pub(crate) fn ps(view: &View<'_>) -> Ps {
    let mut guests: Vec<GuestRow> =
        view.world.guests.iter().map(|guest| guest_row(view, guest)).collect();
    guests.sort_by(|a, b| natural(&a.name, &b.name).then(a.id.cmp(&b.id)));
    Ps { host: host_row(view), ksm: view.ksm.clone(), guests }
}

fn host_row(view: &View<'_>) -> HostRow {
    let World { settings, host, plan, .. } = view.world;
    let machine = host.machine();
    let owners = view.world.owners();
    let used = owners.sum();
    let zfs = machine.and_then(|m| m.zfs);
    let total = machine.map(|m| m.total.plus(m.huge_pages));
    let gives = owners.in_files.plus(zfs.map_or(Bytes::ZERO, |zfs| zfs.gives));
    let all = total.zip(machine).map(|(total, m)| total.less(m.available).plus(gives));
    let apart = zfs.map_or(Bytes::ZERO, |zfs| zfs.size);
    let known = machine.map(|m| used.plus(m.compressed).plus(m.huge_pages).plus(apart));
    let promised = view.memory.newest().and_then(|inputs| inputs.host_promised);
    let rates = host.rates;
    HostRow {
        watching: view.watching.clone(),
        total_bytes: total.map(|size| size.0),
        available_bytes: host.available(settings, used).map(|size| size.0),
        machine_available_bytes: machine.map(|m| m.available.0),
        owners: Box::new(OwnersRow {
            used_bytes: all.map(|size| size.0),
            guests_bytes: owners.guests.less(owners.hypervisors).0,
            hypervisors_bytes: owners.hypervisors.0,
            shared_bytes: owners.shared.0,
            compressed_bytes: machine.map(|m| m.compressed.0),
            manager_bytes: machine.map(|m| m.own.0),
            huge_pages_bytes: machine.map_or(0, |m| m.huge_pages.0),
            zfs_bytes: apart.0,
            other_bytes: all.zip(known).map(|(all, known)| all.less(known).0),
            saved_bytes: owners.saved.0,
        }),
        set_point_bytes: plan.set_point.0,
        hysteresis_bytes: plan.hysteresis.0,
        reserve_bytes: plan.reserve.0,
        budget_bytes: machine.and_then(|m| settings.budget(m.total)).map(|b| b.0),
        promised_bytes: promised.map(|size| size.0),
        reserved_bytes: Some(view.memory.engine.arbiter.held().0),
        psi_permille: rates.psi_permille,
        swap_in_pages_s: rates.swap_in_s,
        swap_out_pages_s: rates.swap_out_s,
    }
}

fn guest_row(view: &View<'_>, guest: &ManagedGuest) -> GuestRow {
    let record = view.memory.record(guest.id);
    let last = record.and_then(|record| record.last.as_ref());
    let inputs = record.and_then(|record| record.recent.front().copied());
    let sample = guest.sample(view.now.ms);
    let outside = guest.outside.seen;
    let status = guest.daemon.link.agent().status();
    // The fields from `held` are empty for a user of z/VM, because z/VM's value does not include
    // memory that is shared with other users.
    let held = guest.memory.held.filter(|_| guest.memory.counted.is_none());
    GuestRow {
        id: guest.id.0,
        name: guest.found.name.clone(),
        uuid: guest.who().uuid.clone(),
        pid: guest.found.process.map(|process| process.pid),
        source: guest.found.source.clone(),
        class: class(guest),
        mode: guest.limits.mode.into(),
        state: state(guest),
        unusable: match sample.usable {
            Usable::No(why) => Some(why.to_owned()),
            // Balloon statistics matter only for a managed guest.
            Usable::Yes => {
                let is_managed = guest.limits.mode == Mode::Managed;
                (is_managed && guest.memory.is_mute()).then(|| MUTE.to_owned())
            }
        },
        daemon: guest.daemon.link.agent().is_up(),
        cpus_online: status.map(|status| status.cpus_online),
        cpus_present: status.map(|status| status.cpus_present),
        memory_bytes: guest.found.memory.0,
        actual_bytes: sample.actual.map(|size| size.0),
        target_bytes: guest.memory.target.map(|size| size.0),
        min_bytes: guest.limits.min.0,
        max_bytes: guest.limits.max.0,
        shares: guest.limits.shares,
        resident_bytes: guest.memory.resident().map(|size| size.0),
        private_bytes: held.map(|held| held.private.0),
        own_bytes: held.map(|held| held.own.size.0),
        own_measured: held.is_some_and(|held| held.own.is_measured),
        shared_bytes: held.map(|held| held.shared.0),
        compressed_bytes: compressed(view, guest).map(|size| size.0),
        available_bytes: guest.memory.view.and_then(|m| m.available).map(|size| size.0),
        need_bytes: inputs.and_then(|inputs| inputs.need).map(|size| size.0),
        cpu_percent: guest.cpu.usage.map(|usage| usage.cpu_percent),
        steal_percent: guest.cpu.usage.map(|usage| usage.steal_percent),
        psi_permille: inputs.and_then(|i| i.psi_permille).map(|psi| psi as f64),
        age_ms: guest.memory.view.map(|memory| view.now.ms.saturating_sub(memory.at_ms)),
        action: last.map(|(d, _)| d.action.into()),
        clause: last.map(|(d, _)| d.clause),
        reason: last.map(|(d, _)| d.to_string()),
        reversals: view.memory.engine.arbiter.reversals(guest.key()),
        asleep: guest.cpu.is_asleep(),
        swapped_bytes: outside.swapped.map(|size| size.0),
        host_major_faults_s: outside.major_faults_s,
        host_psi_permille: outside.psi_permille,
        reported_bytes: guest.memory.reported.0,
        page_reporting: guest.found.can.page_reporting,
        deflate_on_oom: guest.found.can.deflate_on_oom,
        vcpu_tids: guest.found.vcpu_tids.clone(),
    }
}

/// Returns the last decision about a guest, with its inputs.
pub(crate) fn inputs(view: &View<'_>, name: &str) -> Result<Inputs, Failure> {
    let guest = view.world.guests.find(name)?;
    let undecided = || {
        Failure::new(format!("There is no decision about {name} yet"))
            .help("the first decision comes some seconds after a guest was found")
    };
    let record = view.memory.record(guest.id).ok_or_else(undecided)?;
    let (decision, at_ms) = record.last.as_ref().ok_or_else(undecided)?;
    let named = record.recent.front().unwrap_or(&decision.inputs).named();
    Ok(Inputs {
        guest: guest.found.name.clone(),
        at_ms: *at_ms,
        values: values(view, guest),
        inputs: named
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.map(|value| value as f64)))
            .collect(),
        action: Some(decision.action.into()),
        clause: Some(decision.clause),
        reason: Some(decision.to_string()),
        bounds: decision.bounds.iter().map(|bound| bound.name().to_owned()).collect(),
    })
}

/// Returns a guest's counters by their names in rules, the newest value of each first.
fn values(view: &View<'_>, guest: &ManagedGuest) -> BTreeMap<String, Vec<Option<f64>>> {
    let total = view.world.host.machine().map(|machine| machine.total);
    let context = context_of(guest, &view.world, total);
    let recent = view.memory.record(guest.id).map(|record| &record.recent);
    let known = |counter: &HostCounter| {
        let recent = recent.into_iter().flatten();
        recent.map(|inputs| value(*counter, inputs, &context)).collect()
    };
    HostCounter::ALL.iter().map(|counter| (counter.name().to_owned(), known(counter))).collect()
}

/// Returns the levers on the host's memory, cheapest first.
pub(crate) fn levers(view: &View<'_>, page_out: LeverRow) -> Vec<LeverRow> {
    let guests = view.world.guests;
    let reporting = guests.iter().filter(|guest| guest.found.can.page_reporting == Some(true));
    let reported: u64 = guests.iter().map(|guest| guest.memory.reported.0).sum();
    let ballooned: Vec<u64> = guests
        .iter()
        .filter_map(|guest| guest.memory.gained_by_balloon().map(|gained| gained.0))
        .collect();
    let state = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
    let ksm = &view.ksm;
    let reporting = reporting.count() as u64;
    vec![
        LeverRow {
            name: "page-reporting".to_owned(),
            state: state(reporting > 0),
            guests: Some(reporting),
            gained_bytes: Some(reported),
            ..LeverRow::default()
        },
        LeverRow {
            name: "balloon".to_owned(),
            state: state(guests.iter().any(|guest| guest.found.can.balloon)),
            guests: Some(ballooned.len() as u64),
            gained_bytes: Some(ballooned.iter().sum()),
            ..LeverRow::default()
        },
        page_out,
        LeverRow {
            name: "ksm".to_owned(),
            state: ksm
                .phase
                .map_or_else(|| state(ksm.runs == Some(true)), |phase| phase.to_string()),
            gained_bytes: ksm.gain_bytes,
            cost_percent: ksm.cost_percent,
            ..LeverRow::default()
        },
    ]
}

/// Completes the status of the manager. `own` has the figures of the manager's loop.
pub(crate) fn status(view: &View<'_>, own: Status) -> Status {
    let World { settings, guests, .. } = view.world;
    let shown = |path: &Path| path.display().to_string();
    Status {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rules: settings.policy.rules.as_deref().map(shown),
        shadow: settings.policy.shadow.as_deref().map(shown),
        host: host_row(view),
        ksm: view.ksm.clone(),
        journal: JournalRow { path: settings.journal.path.as_deref().map(shown), ..own.journal },
        guests: guests.len(),
        managed: guests.iter().filter(|guest| guest.limits.mode == Mode::Managed).count(),
        resident_bytes: view.world.host.machine().map(|machine| machine.own.0),
        ..own
    }
}

/// Returns the size in compressed swap of the guest's memory that the host has swapped out.
pub(crate) fn compressed(view: &View<'_>, guest: &ManagedGuest) -> Option<Bytes> {
    view.world.host.machine()?.compressed_of(guest.outside.seen.swapped?)
}

pub(crate) fn class(guest: &ManagedGuest) -> Option<String> {
    Some(guest.identity.class().to_owned()).filter(|class| !class.is_empty())
}

fn state(guest: &ManagedGuest) -> GuestRunState {
    match guest.state {
        _ if !guest.answers => GuestRunState::Silent,
        RunState::Running => GuestRunState::Running,
        RunState::Paused(_) if guest.cpu.is_parked() => GuestRunState::Parked,
        RunState::Paused(_) => GuestRunState::Paused,
        RunState::Migrating => GuestRunState::Migrating,
        RunState::Dead => GuestRunState::Dead,
    }
}
