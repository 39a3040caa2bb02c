//! One pass: what is known goes to the engine, what it decides goes to the guests.

use crate::book;
use crate::config::{Loaded, Settings};
use crate::guest::Guest;
use crate::machine::Machine;
use crate::manager::{Manager, Options};
use crate::operator::{GuestContext, HostMetrics, Operator};
use crate::policy_engine::PolicyEngine;
use crate::{Error, requests};
use counters::Bytes;
use hypervisor::Id;
use policy::arbiter::{Clause, Config, GuestSample, Key, Pass};
use std::collections::BTreeMap;
use store::{Policy, kinds};

/// Pages a second that a host writes to swap before it counts as in want: 4 MiB.
const HOST_SWAP_OUT: f64 = 1024.0;
/// Pages a second that it reads from swap while something waits for memory.
const HOST_SWAP_IN: f64 = 256.0;
/// Time in which some task waits for memory, in thousandths. Alone it says little: a container
/// at its own limit waits too, and no guest can help it.
const HOST_PSI: f64 = 100.0;

/// Rates of the host's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostRates {
    pub(crate) swap_in_s: Option<f64>,
    pub(crate) swap_out_s: Option<f64>,
    pub(crate) psi_permille: Option<f64>,
}

impl HostRates {
    /// Whether the host itself is in want: it swaps, or tasks of it wait for memory.
    fn is_strained(&self) -> bool {
        let over = |rate: Option<f64>, limit: f64| rate.is_some_and(|rate| rate >= limit);
        over(self.swap_out_s, HOST_SWAP_OUT)
            || (over(self.psi_permille, HOST_PSI) && over(self.swap_in_s, HOST_SWAP_IN))
    }
}

/// The engine that acts, and the shadow, if the settings ask for one.
pub(crate) fn engines(
    loaded: &Loaded,
    options: Options,
    total: Bytes,
) -> Result<(PolicyEngine, Option<(PolicyEngine, Settings)>), Error> {
    let make = |settings: &Settings, acts: bool| -> Result<PolicyEngine, Error> {
        let operator = settings.policy.rules.as_deref().map(Operator::load).transpose()?;
        let config = config(settings, total);
        Ok(if acts {
            PolicyEngine::acting(config, operator)
        } else {
            PolicyEngine::shadow(config, operator)
        })
    };
    let engine = make(&loaded.settings, !options.dry_run)?;
    let shadow = match &loaded.shadow {
        Some(shadow) => Some((make(shadow, false)?, shadow.clone())),
        None => None,
    };
    Ok((engine, shadow))
}

/// How a host is kept: parts are parts of what guests may use.
fn config(settings: &Settings, total: Bytes) -> Config {
    settings.arbiter(settings.budget(total).unwrap_or(total))
}

impl Manager {
    /// Reads the host. What cannot be read is not known: the arbiter then moves nothing.
    pub(crate) fn read_machine(&mut self, now: u64) {
        match self.reader.read() {
            Ok(machine) => {
                if let Some((before, at)) = self.machine {
                    self.rates = rates(&before, &machine, now.saturating_sub(at));
                }
                self.machine = Some((machine, now));
            }
            Err(error) => {
                if self.machine.take().is_some() {
                    self.said.push(format!("The host's memory cannot be read, all hold: {error}"));
                }
            }
        }
    }

    /// Applies the settings to the host's size and to all guests.
    pub(crate) fn configure(&mut self) {
        if let Some((machine, _)) = self.machine {
            self.engine.config = config(&self.settings, machine.total);
            if let Some((shadow, settings)) = &mut self.shadow {
                shadow.config = config(settings, machine.total);
            }
        }
        for guest in self.guests.values_mut() {
            let (limits, class) = self.settings.limits(&guest.found.name, guest.found.memory);
            guest.class = class.unwrap_or_default().to_owned();
            guest.limits = match self.overrides.get(&guest.id) {
                Some(over) => over.applied(limits, guest.found.memory),
                None => limits,
            };
        }
        self.hold_all();
    }

    /// Tells the keeper what each guest lacks to the maximum that it has now.
    fn hold_all(&mut self) {
        self.lease.set_reserve(self.engine.config.reserve);
        if !self.engine.acts() {
            return;
        }
        for guest in self.guests.values().filter(|guest| !guest.is_let_go) {
            let told = guest.commanded.unwrap_or(guest.actual);
            self.lease.hold(guest, told.min(guest.actual), &self.settings);
        }
    }

    /// One pass over all guests.
    pub(crate) fn pass(&mut self, now: u64) {
        self.read_machine(now);
        for guest in self.guests.values_mut() {
            let moves = self.engine.arbiter.target(guest.key()).is_some();
            // One that sleeps may have given pages back since it was looked at last.
            if moves || !guest.is_asleep(now) || guest.is_resident_old(now) {
                guest.read_resident(now);
            }
        }
        let resident: Bytes = self.guests.values().filter_map(|guest| guest.resident).sum();
        let machine = self.machine.filter(|(_, at)| *at == now).map(|(machine, _)| machine);
        let host = machine.map(|machine| {
            let strained = self.rates.is_strained();
            machine.sample(self.settings.budget(machine.total), resident, strained, now)
        });
        let mut samples: Vec<GuestSample> = self.guests.values().map(|g| g.sample(now)).collect();
        if self.engine.acts() && !self.lease.is_kept() {
            // Nobody would give back what is taken now: everyone keeps at least what it has.
            for sample in &mut samples {
                sample.limits.min = sample.limits.min.max(sample.actual.unwrap_or(Bytes::ZERO));
            }
        }
        let metrics = self.metrics(host.map(|host| host.total));
        let contexts = self.contexts();
        let pass = self.engine.decide(host.as_ref(), &samples, &contexts, metrics, now);
        self.apply(&pass, now);
        self.remember(&pass);
        self.decide_in_shadow(host.as_ref(), &samples, &contexts, metrics, now);
        self.guests.values_mut().for_each(|guest| guest.urgent = false);
        if let Some(news) = self.journal.flush() {
            self.said.push(requests::journal_news(&news));
        }
    }

    /// Keeps the numbers of this pass, for who asks.
    fn remember(&mut self, pass: &Pass) {
        for (key, inputs) in &pass.inputs {
            if let Some(guest) = self.guests.get_mut(&Id(key.0)) {
                guest.remember(*inputs);
            }
        }
        let guests = &self.guests;
        if let Some(operator) = &mut self.engine.operator {
            operator.retain(|key| guests.contains_key(&Id(key.0)));
        }
    }

    /// Tells the operator what he should not have to look for.
    fn tell(&mut self, pass: &Pass) {
        for decision in &pass.decisions {
            let id = Id(decision.key.0);
            let Some(guest) = self.guests.get(&id) else { continue };
            let name = guest.found.name.clone();
            match decision.clause {
                Clause::Stuck => self.said.push(format!(
                    "The balloon of {name} does not move: it is left out, and tried again later"
                )),
                Clause::NoYield => self.said.push(format!(
                    "What {name} gave did not reach the host: nothing is asked of it for a while"
                )),
                _ => {}
            }
        }
    }

    /// Leaves guests to another manager that moves them, and tells of it.
    fn let_go(&mut self, now: u64) {
        let mut news = Vec::new();
        for guest in self.guests.values_mut() {
            let is_let_go = self.engine.arbiter.is_foreign(guest.key(), now);
            if !std::mem::replace(&mut guest.is_let_go, is_let_go) && is_let_go {
                news.push((guest.id, guest.found.name.clone()));
            }
        }
        for (id, name) in news {
            self.lease.drop_guest(id);
            let text =
                format!("Somebody else moves the balloon of {name}: it is let go for ten minutes");
            self.note(kinds::FOREIGN, text.clone(), Some(id));
            self.said.push(text);
        }
    }

    fn decide_in_shadow(
        &mut self,
        host: Option<&policy::arbiter::HostSample>,
        samples: &[GuestSample],
        contexts: &BTreeMap<Key, GuestContext>,
        metrics: HostMetrics,
        now: u64,
    ) {
        let at_ms = self.clock.wall_ms();
        let Some((shadow, settings)) = &mut self.shadow else { return };
        let samples: Vec<GuestSample> = samples
            .iter()
            .filter_map(|sample| {
                let guest = self.guests.get(&Id(sample.key.0))?;
                let (limits, _) = settings.limits(&guest.found.name, guest.found.memory);
                Some(GuestSample { limits, ..*sample })
            })
            .collect();
        let pass = shadow.decide(host, &samples, contexts, metrics, now);
        for decision in &pass.decisions {
            if let Some(guest) = self.guests.get(&Id(decision.key.0)) {
                let row = book::decision(decision, Policy::Shadow, false, at_ms);
                self.journal.decision(&guest.who, row);
            }
        }
    }

    fn apply(&mut self, pass: &Pass, now: u64) {
        let at_ms = self.clock.wall_ms();
        let acts = self.engine.acts();
        for outcome in &pass.outcomes {
            if let Some(guest) = self.guests.get_mut(&Id(outcome.key.0))
                && let Some(ticket) = guest.ticket.take()
            {
                self.journal.outcome(ticket, book::outcome(outcome, at_ms));
            }
        }
        for decision in &pass.decisions {
            let Some(guest) = self.guests.get_mut(&Id(decision.key.0)) else { continue };
            let row = book::decision(decision, Policy::Active, acts, at_ms);
            let ticket = self.journal.decision(&guest.who, row);
            guest.last = Some((decision.clone(), at_ms));
            let Some(size) = decision.command else { continue };
            if !acts {
                continue;
            }
            guest.ticket = Some(ticket);
            guest.commanded = Some(size);
            // The lease first: a manager that dies between the two has promised too much, and
            // not taken what nobody would give back. What is given back counts when it is there.
            self.lease.hold(guest, size.min(guest.actual), &self.settings);
            // Its daemon first, which would take the change for its kernel's doing.
            let sequence = guest.asked.take().unwrap_or(0);
            guest.inside.grant(sequence, guest.found.memory, size, decision.to_string());
            self.sources[guest.source].set_target(guest.id, size, now);
        }
        for guest in self.guests.values_mut() {
            refuse(guest);
        }
        self.tell(pass);
        self.let_go(now);
        self.reserved(&pass.reserved, now);
    }

    pub(crate) fn metrics(&self, total: Option<Bytes>) -> HostMetrics {
        HostMetrics {
            total,
            swap_in_s: self.rates.swap_in_s,
            swap_out_s: self.rates.swap_out_s,
            psi_permille: self.rates.psi_permille,
            guests: self.guests.len(),
            ksm: self.ksm.status().gain,
        }
    }

    fn contexts(&self) -> BTreeMap<Key, GuestContext> {
        let shadow = self.shadow.as_ref().is_some_and(|(engine, _)| engine.operator.is_some());
        if self.engine.operator.is_none() && !shadow {
            return BTreeMap::new();
        }
        self.guests.values().map(|guest| (guest.key(), context_of(guest))).collect()
    }
}

/// A request that the pass gave nothing for is answered with what there is, and why.
fn refuse(guest: &mut Guest) {
    let Some(sequence) = guest.asked.take() else { return };
    let why = match &guest.last {
        Some((decision, _)) => decision.to_string(),
        None => "nothing is known of this guest yet".to_owned(),
    };
    let keeps = guest.commanded.unwrap_or(guest.actual);
    guest.inside.grant(sequence, guest.found.memory, keeps, why);
}

pub(crate) fn context_of(guest: &Guest) -> GuestContext {
    GuestContext {
        min: guest.limits.min,
        max: guest.limits.max,
        shares: guest.limits.shares,
        cpu: guest.usage.map(|usage| usage.cpu_percent),
        steal: guest.usage.map(|usage| usage.steal_percent),
        cache: guest.memory.and_then(|memory| memory.cached),
        host: HostMetrics::default(),
    }
}

fn rates(before: &Machine, now: &Machine, window_ms: u64) -> HostRates {
    let per_s = |now: u64, before: u64| {
        let grown = now.checked_sub(before)?;
        (window_ms > 0).then(|| grown as f64 * 1000.0 / window_ms as f64)
    };
    HostRates {
        swap_in_s: per_s(now.swap_in, before.swap_in),
        swap_out_s: per_s(now.swap_out, before.swap_out),
        psi_permille: now
            .psi_some_us
            .zip(before.psi_some_us)
            .and_then(|(now, before)| per_s(now, before))
            .map(|us| us / 1000.0),
    }
}
