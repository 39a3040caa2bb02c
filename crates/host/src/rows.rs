//! The manager and its guests as the control socket shows them.

use crate::control::{GuestRow, HostRow, JournalRow, Ps, SourceRow, Status};
use crate::guest::Guest;
use crate::manager::Manager;
use crate::operator::value;
use counters::HostCounter;
use hypervisor::{ProcessId, ProcessView, RunState};
use policy::arbiter::{Action, Decision, Mode, Usable};
use std::collections::BTreeMap;

impl Manager {
    pub(crate) fn ps(&self, now: u64) -> Ps {
        let mut guests: Vec<GuestRow> =
            self.guests.values().map(|guest| self.row(guest, now)).collect();
        guests.sort_by(|a, b| a.name.cmp(&b.name).then(a.id.cmp(&b.id)));
        Ps { host: self.host_row(), ksm: self.ksm.status().into(), guests }
    }

    fn host_row(&self) -> HostRow {
        let machine = self.machine.map(|(machine, _)| machine);
        let newest = self.guests.values().find_map(|guest| guest.recent.front());
        let resident = self.guests.values().filter_map(|guest| guest.resident).sum();
        // What there is to hand out: within the budget, like all that is decided.
        let sample = machine.map(|m| m.sample(self.settings.budget(m.total), resident, false, 0));
        HostRow {
            total_bytes: machine.map(|m| m.total.0),
            available_bytes: sample.map(|sample| sample.available.0),
            set_point_bytes: self.engine.config.set_point.0,
            hysteresis_bytes: self.engine.config.hysteresis.0,
            reserve_bytes: self.engine.config.reserve.0,
            budget_bytes: machine.and_then(|m| self.settings.budget(m.total)).map(|b| b.0),
            promised_bytes: newest.and_then(|inputs| inputs.host_promised).map(|size| size.0),
            reserved_bytes: Some(self.engine.arbiter.held().0),
            psi_permille: self.rates.psi_permille,
            swap_in_pages_s: self.rates.swap_in_s,
            swap_out_pages_s: self.rates.swap_out_s,
        }
    }

    fn row(&self, guest: &Guest, now: u64) -> GuestRow {
        let inputs = guest.recent.front().copied();
        let sample = guest.sample(now);
        let outside = guest.outside.seen();
        GuestRow {
            id: guest.id.0,
            name: guest.found.name.clone(),
            uuid: guest.who.uuid.clone(),
            pid: guest.found.process.map(|process| process.pid),
            source: guest.found.source.clone(),
            class: class(guest),
            mode: mode(guest.limits.mode).to_owned(),
            state: state(guest).to_owned(),
            unusable: match sample.usable {
                Usable::No(why) => Some(why.to_owned()),
                Usable::Yes => None,
            },
            daemon: guest.inside.is_up(),
            memory_bytes: guest.found.memory.0,
            actual_bytes: sample.actual.map(|size| size.0),
            target_bytes: guest.commanded.map(|size| size.0),
            min_bytes: guest.limits.min.0,
            max_bytes: guest.limits.max.0,
            shares: guest.limits.shares,
            resident_bytes: guest.resident.map(|size| size.0),
            available_bytes: guest.memory.and_then(|m| m.available).map(|size| size.0),
            need_bytes: inputs.and_then(|inputs| inputs.need).map(|size| size.0),
            cpu_percent: guest.usage.map(|usage| usage.cpu_percent),
            steal_percent: guest.usage.map(|usage| usage.steal_percent),
            psi_permille: inputs.and_then(|i| i.psi_permille).map(|psi| psi as f64),
            age_ms: guest.memory.map(|memory| now.saturating_sub(memory.at_ms)),
            action: guest.last.as_ref().map(|(d, _)| action(d).to_owned()),
            clause: guest.last.as_ref().map(|(d, _)| d.clause.name().to_owned()),
            reason: guest.last.as_ref().map(|(d, _)| d.to_string()),
            reversals: self.engine.arbiter.reversals(guest.key()),
            asleep: guest.is_asleep(now),
            swapped_bytes: outside.swapped.map(|size| size.0),
            host_major_faults_s: outside.major_faults_s,
            host_psi_permille: outside.psi_permille,
            reported_bytes: guest.reported.0,
            page_reporting: guest.found.can.page_reporting,
            deflate_on_oom: guest.found.can.deflate_on_oom,
            vcpu_tids: guest.found.vcpu_tids.clone(),
        }
    }

    /// The numbers of a guest under the names that rules have for them, the newest first.
    pub(crate) fn values(&self, guest: &Guest) -> BTreeMap<String, Vec<Option<f64>>> {
        let total = self.machine.map(|(machine, _)| machine.total);
        let mut context = crate::pass::context_of(guest);
        context.host = self.metrics(total);
        HostCounter::ALL
            .iter()
            .map(|counter| {
                let known = guest.recent.iter().map(|inputs| value(*counter, inputs, &context));
                (counter.name().to_owned(), known.collect())
            })
            .collect()
    }

    pub(crate) fn status(&self, now: u64) -> Status {
        let at = |source: usize| self.guests.values().filter(|g| g.source == source).count();
        let uptime_ms = now.saturating_sub(self.start_ms);
        let cpu = self.clock.cpu_ms() as f64 / uptime_ms.max(1) as f64 * 100.0;
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms,
            dry_run: self.options.dry_run,
            config: self.config_path.as_ref().map(|path| path.display().to_string()),
            rules: self.settings.policy.rules.as_ref().map(|path| path.display().to_string()),
            shadow: self.settings.policy.shadow.as_ref().map(|path| path.display().to_string()),
            host: self.host_row(),
            ksm: self.ksm.status().into(),
            sources: self
                .sources
                .iter()
                .enumerate()
                .map(|(index, source)| SourceRow {
                    name: source.name(),
                    guests: at(index),
                    trouble: self.troubles.get(&index).cloned(),
                })
                .collect(),
            lease: self.lease.row(),
            journal: JournalRow {
                path: self.settings.journal.path.as_ref().map(|p| p.display().to_string()),
                waiting: self.journal.queued() as u64,
                lost: self.journal.lost(),
                trouble: None,
            },
            guests: self.guests.len(),
            managed: self.guests.values().filter(|g| g.limits.mode == Mode::Managed).count(),
            passes: self.passes,
            pass_us: self.pass_us,
            cpu_percent: Some(cpu),
            resident_bytes: own_resident(),
            clients: self.control.clients(),
            troubles: self.troubles.values().cloned().collect(),
        }
    }
}

fn own_resident() -> Option<u64> {
    let own = ProcessId::of(std::process::id()).and_then(ProcessView::open)?;
    own.resident().map(|size| size.0)
}

/// What was done, in one word.
pub(crate) fn action(decision: &Decision) -> &'static str {
    match decision.action {
        Action::Hold => "hold",
        Action::Grow => "grow",
        Action::Shrink => "shrink",
    }
}

/// A guest's class, if it is in one.
pub(crate) fn class(guest: &Guest) -> Option<String> {
    (!guest.class.is_empty()).then(|| guest.class.clone())
}

/// Who decides about a guest, in one word.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Managed => "managed",
        Mode::Pinned(_) => "pinned",
        Mode::Released => "released",
    }
}

fn state(guest: &Guest) -> &'static str {
    match guest.state {
        _ if !guest.answers => "silent",
        RunState::Running => "running",
        RunState::Paused => "paused",
        RunState::Migrating => "migrating",
        RunState::Dead => "dead",
    }
}
