//! The memory of all guests: the time of decisions, the decisions, and each guest's target.
//!
//! ```text
//!   World (guests' samples, the host's reading) ─► PolicyEngine ─► Pass ─► Effects: targets,
//!                                    └─► shadow: only the journal            grants, the lease
//! ```

mod dry_run;
mod engine;
mod record;
mod rules;
mod schedule;
mod trace;

pub(crate) use engine::engines;
pub(crate) use rules::value;
pub(crate) use schedule::Schedule;

use crate::config::Settings;
use crate::effect::{Attention, Effect, GuestEvent, MemoryEvent, Now, RequestEvent};
use crate::guest::{MUTE, ManagedGuest};
use crate::journal;
use crate::world::World;
use base::Bytes;
use dry_run::DryRun;
use engine::{PolicyEngine, plan};
use hypervisor::Id;
use model::PassEvent;
use policy::arbiter::{
    Action, Arbiter, Clause, Decision, GuestSample, HostSample, Key, Left, Limits, Pass,
};
use policy::rivals::Scene;
use record::Record;
use rules::{GuestContext, HostMetrics};
use std::collections::BTreeMap;
use store::{Policy, kinds};
use trace::Trace;

/// The policy that acts, its shadow, and the decisions about each guest.
pub(crate) struct Memory {
    /// The active engine. In a dry run its decisions are not carried out.
    pub(crate) engine: PolicyEngine,
    shadow: Option<(PolicyEngine, Settings)>,
    records: BTreeMap<Id, Record>,
    trace: Trace,
    /// Moves of a dry run.
    pub(crate) dry_run: DryRun,
}

impl Memory {
    /// Returns the state with its active policy and, if configured, a shadow. `is_recorded` is set
    /// if passes are recorded.
    pub(crate) fn new(
        mut engine: PolicyEngine,
        shadow: Option<(PolicyEngine, Settings)>,
        is_recorded: bool,
    ) -> Memory {
        if is_recorded {
            engine.record();
        }
        let (trace, dry_run) = (Trace::default(), DryRun::default());
        Memory { engine, shadow, records: BTreeMap::new(), trace, dry_run }
    }

    pub(crate) fn record(&self, guest: Id) -> Option<&Record> {
        self.records.get(&guest)
    }

    /// Returns the inputs of the last pass for any one guest, to read the host's values. These
    /// values are the same for all guests.
    pub(crate) fn newest(&self) -> Option<&policy::arbiter::Inputs> {
        self.records.values().find_map(|record| record.recent.front())
    }

    /// Replaces the policies. The state of guests is kept.
    pub(crate) fn replace(
        &mut self,
        mut engine: PolicyEngine,
        shadow: Option<(PolicyEngine, Settings)>,
    ) {
        std::mem::swap(&mut engine, &mut self.engine);
        self.engine.succeed(engine);
        self.shadow = shadow;
    }

    /// Sets the host's size, from which some settings are computed.
    pub(crate) fn resize(&mut self, settings: &Settings, total: Bytes) {
        self.engine.config = plan(settings, total);
        if let Some((shadow, settings)) = &mut self.shadow {
            shadow.config = plan(settings, total);
        }
    }

    pub(crate) fn step(&mut self, world: &World<'_>, event: MemoryEvent, now: Now) -> Vec<Effect> {
        match event {
            MemoryEvent::Pass => self.pass(world, now),
            MemoryEvent::LimitsChanged => self.hold_all(world),
            MemoryEvent::Rebooted(guest) => {
                let key = Key(guest.0);
                self.engine.arbiter.rebooted(key);
                self.trace.note(PassEvent::Rebooted(key.0));
                if let Some((shadow, _)) = &mut self.shadow {
                    shadow.arbiter.rebooted(key);
                }
                let attention = attention_of(&self.engine.arbiter, key);
                let record = self.records.get_mut(&guest);
                record.and_then(|record| record.attend(guest, attention)).into_iter().collect()
            }
            MemoryEvent::Reserve { reservation, size, deadline_ms, held_ms } => {
                let (id, bytes) = (reservation, size.0);
                self.trace.note(PassEvent::Reserved { id, bytes, deadline_ms, held_ms });
                let arbiter = &mut self.engine.arbiter;
                match arbiter.reserve(reservation, size, deadline_ms, held_ms) {
                    true => vec![Effect::Hurry],
                    false => vec![Effect::Requests(RequestEvent::Refused(reservation))],
                }
            }
            MemoryEvent::Unreserve(reservation) => {
                self.engine.arbiter.unreserve(reservation);
                self.trace.note(PassEvent::Unreserved(reservation));
                Vec::new()
            }
        }
    }

    /// Sends the keeper the reserve and the size of each guest.
    fn hold_all(&self, world: &World<'_>) -> Vec<Effect> {
        let mut effects = vec![Effect::SetReserve(self.engine.config.reserve)];
        if world.acts {
            effects.extend(world.guests.iter().map(|guest| hold(guest, guest.memory.least())));
        }
        effects
    }

    fn pass(&mut self, world: &World<'_>, now: Now) -> Vec<Effect> {
        let used = world.owners().sum();
        let host = world.host.sample(world.settings, used, now.ms);
        let host = host.map(|host| HostSample { page_out: world.page_out, ..host });
        let mut samples: Vec<GuestSample> =
            world.guests.iter().map(|guest| guest.sample(now.ms)).collect();
        if let Some(total) = world.host.machine().map(|machine| machine.all) {
            // A guest may report any size, but cannot get more memory than the host has.
            for Limits { min, max, .. } in samples.iter_mut().map(|sample| &mut sample.limits) {
                (*min, *max) = ((*min).min(total), (*max).min(total));
            }
        }
        if world.acts && !world.is_leased {
            // Without a keeper, memory reclaimed now would not be restored after a kill. Every
            // guest therefore keeps at least its size.
            for sample in &mut samples {
                sample.limits.min = sample.limits.min.max(sample.actual.unwrap_or(Bytes::ZERO));
            }
        }
        let contexts = self.contexts(world, host.as_ref());
        let psi = world.host.rates.psi_permille.map(|permille| permille as u64);
        let scene = Scene {
            now_ms: now.ms,
            host: host.as_ref(),
            host_psi_permille: psi,
            samples: &samples,
        };
        let pass = self.engine.decide(&scene, &contexts);
        if self.records.len() > world.guests.len() {
            self.records.retain(|id, _| world.guests.get(*id).is_some());
        }
        let mut effects = Vec::new();
        if let Some(seen) = self.engine.take_seen() {
            effects.push(Effect::Passed(Box::new(self.trace.pass(seen, world, now))));
        }
        self.apply(&pass, world, now, &mut effects);
        self.remember(&pass, world, &mut effects);
        if world.acts {
            let left = |&Left { key, at, rose }: &Left| {
                Effect::Guests(GuestEvent::Left { guest: Id(key.0), at, rose })
            };
            effects.extend(pass.left.iter().map(left));
        }
        self.tell_mute(world, now, &mut effects);
        self.leave_to_others(world, now, &mut effects);
        if !pass.reserved.is_empty() {
            effects.push(Effect::Requests(RequestEvent::Settled(pass.reserved)));
        }
        self.shadow_pass(&scene, &contexts, world, now, &mut effects);
        effects
    }

    fn apply(&mut self, pass: &Pass, world: &World<'_>, now: Now, effects: &mut Vec<Effect>) {
        for outcome in &pass.outcomes {
            let row = journal::outcome(outcome, now.wall_ms);
            effects.push(Effect::Outcome { guest: Id(outcome.key.0), row });
        }
        for decision in &pass.decisions {
            let id = Id(decision.key.0);
            let Some(guest) = world.guests.get(id) else { continue };
            let decision = &explained(decision, guest);
            let row = journal::decision(decision, Policy::Active, world.acts, now.wall_ms);
            let command = decision.command.filter(|_| world.acts);
            if let (Some(size), false) = (decision.command, world.acts) {
                self.dry_run.count(&guest.found.name, decision.from, size);
            }
            // A further step of a move belongs to the journal's entry of the move. A decision that
            // moves nothing has no outcome, so it gets an entry of its own.
            effects.push(match decision.goes_on && command.is_some() {
                true => Effect::GoesOn(id),
                false => Effect::Decided {
                    guest: id,
                    who: guest.who().clone(),
                    row: Box::new(row),
                    moves: command.is_some(),
                },
            });
            let record = self.records.entry(id).or_default();
            record.last = Some((decision.clone(), now.wall_ms));
            if let Some(size) = command {
                // The lease is changed before the target. If the manager dies in between, the lease
                // lists memory that was not reclaimed. It never misses reclaimed memory. Memory
                // given to a guest counts only once the guest has it.
                effects.push(hold(guest, size.min(guest.memory.actual)));
                // The daemon is notified first. Otherwise the daemon would attribute the change to
                // the guest's kernel.
                let reason = decision.to_string();
                effects.push(Effect::Guests(GuestEvent::Grant { guest: id, keeps: size, reason }));
                effects.push(Effect::SetTarget { guest: id, size });
            }
            if record.is_news(decision.clause) {
                effects.extend(news(decision, guest));
            }
        }
        self.refuse(pass, world, effects);
    }

    /// Answers memory requests that were not granted in this pass. The answer has the guest's size
    /// and the reason.
    fn refuse(&self, pass: &Pass, world: &World<'_>, effects: &mut Vec<Effect>) {
        for guest in world.guests.iter().filter(|guest| guest.demand.sequence.is_some()) {
            let is_granted = |decision: &Decision| {
                decision.key == guest.key() && decision.command.is_some() && world.acts
            };
            if pass.decisions.iter().any(is_granted) {
                continue;
            }
            let last = self.records.get(&guest.id).and_then(|record| record.last.as_ref());
            let reason = last.map_or_else(
                || "there is no data about this guest yet".to_owned(),
                |(decision, _)| decision.to_string(),
            );
            let keeps = guest.memory.target.unwrap_or(guest.memory.actual);
            effects.push(Effect::Guests(GuestEvent::Grant { guest: guest.id, keeps, reason }));
        }
    }

    /// Records a decision with the reason for a guest's stale data, once it is clear that the
    /// guest's balloon reports no statistics.
    fn tell_mute(&mut self, world: &World<'_>, now: Now, effects: &mut Vec<Effect>) {
        for (id, record) in &mut self.records {
            let Some(guest) = world.guests.get(*id) else { continue };
            let is_mute = guest.memory.is_mute();
            if std::mem::replace(&mut record.is_mute, is_mute) || !is_mute {
                continue;
            }
            let Some((last, _)) = &mut record.last else { continue };
            if last.clause != Clause::Stale || last.detail == MUTE {
                continue;
            }
            let inputs = record.recent.front().copied().unwrap_or(last.inputs);
            *last = Decision { command: None, inputs, ..explained(last, guest) };
            effects.push(Effect::Decided {
                guest: *id,
                who: guest.who().clone(),
                row: Box::new(journal::decision(last, Policy::Active, world.acts, now.wall_ms)),
                moves: false,
            });
        }
    }

    /// Reports the guests with balloons that another manager has begun to move. The arbiter does
    /// not manage such guests.
    fn leave_to_others(&mut self, world: &World<'_>, now: Now, effects: &mut Vec<Effect>) {
        for (id, record) in &mut self.records {
            let is_foreign = self.engine.arbiter.is_foreign(Key(id.0), now.ms);
            if std::mem::replace(&mut record.is_foreign, is_foreign) || !is_foreign {
                continue;
            }
            let Some(guest) = world.guests.get(*id) else { continue };
            let name = &guest.found.name;
            let text = format!(
                "Another program moves the balloon of {name}: the guest is not managed for ten \
                 minutes"
            );
            effects.push(Effect::note(kinds::FOREIGN, text.clone(), Some(guest.who())));
            effects.push(Effect::Notify(text));
        }
    }

    /// Stores the inputs of this pass, and has guests that move or wait for memory watched closely.
    fn remember(&mut self, pass: &Pass, world: &World<'_>, effects: &mut Vec<Effect>) {
        let Memory { engine, records, .. } = self;
        for (key, inputs) in &pass.inputs {
            let id = Id(key.0);
            let record = records.entry(id).or_default();
            record.remember(*inputs);
            effects.extend(record.attend(id, attention_of(&engine.arbiter, *key)));
        }
        if let Some(rules) = &mut engine.rules {
            rules.retain(|key| world.guests.get(Id(key.0)).is_some());
        }
    }

    /// Runs the shadow policy on this pass's samples, with the limits of the shadow's settings.
    fn shadow_pass(
        &mut self,
        scene: &Scene<'_>,
        contexts: &BTreeMap<Key, GuestContext>,
        world: &World<'_>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let Some((shadow, settings)) = &mut self.shadow else { return };
        let mut samples = scene.samples.to_vec();
        for sample in &mut samples {
            if let Some(guest) = world.guests.get(Id(sample.key.0)) {
                let (name, memory) = (&guest.found.name, guest.found.memory);
                (sample.limits, _) = settings.entitlement(name, memory, guest.part.as_ref());
            }
        }
        let pass = shadow.decide(&Scene { samples: &samples, ..*scene }, contexts);
        for decision in &pass.decisions {
            let id = Id(decision.key.0);
            if let Some(guest) = world.guests.get(id) {
                let decision = explained(decision, guest);
                let row = journal::decision(&decision, Policy::Shadow, false, now.wall_ms);
                effects.push(Effect::Decided {
                    guest: id,
                    who: guest.who().clone(),
                    row: Box::new(row),
                    moves: false,
                });
            }
        }
    }

    /// Returns further values for rules, in addition to the arbiter's inputs. Empty without rules.
    fn contexts(
        &self,
        world: &World<'_>,
        host: Option<&HostSample>,
    ) -> BTreeMap<Key, GuestContext> {
        let shadow = self.shadow.as_ref().is_some_and(|(shadow, _)| shadow.rules.is_some());
        if self.engine.rules.is_none() && !shadow {
            return BTreeMap::new();
        }
        let total = host.map(|host| host.total);
        let context = |guest: &ManagedGuest| (guest.key(), context_of(guest, world, total));
        world.guests.iter().map(context).collect()
    }
}

/// Returns the effect that makes the keeper restore a guest's former size, with `size` as the
/// current size.
fn hold(guest: &ManagedGuest, size: Bytes) -> Effect {
    Effect::Hold { guest: guest.id, size }
}

/// Returns the reasons to watch a guest closely.
fn attention_of(arbiter: &Arbiter, key: Key) -> Attention {
    Attention { moves: arbiter.target(key).is_some(), strained: arbiter.is_strained(key) }
}

/// Returns a decision with the reason for its guest's stale data, if there is one.
fn explained(decision: &Decision, guest: &ManagedGuest) -> Decision {
    let is_mute = decision.clause == Clause::Stale && guest.memory.is_mute();
    Decision { detail: if is_mute { MUTE } else { decision.detail }, ..decision.clone() }
}

/// Returns a message about a decision that the operator must notice; `None` for other decisions.
fn news(decision: &Decision, guest: &ManagedGuest) -> Option<Effect> {
    let name = &guest.found.name;
    let is_returned = decision.action == Action::Grow;
    match decision.clause {
        Clause::Stuck => Some(Effect::Notify(format!(
            "The balloon of {name} does not move: the manager tries again later"
        ))),
        Clause::NoYield => {
            let then = if is_returned { "the guest has its memory back, and " } else { "" };
            Some(Effect::Notify(format!(
                "The memory that {name} gave did not reach the host: {then}no memory is taken from \
                 the guest for a while"
            )))
        }
        Clause::Locked => Some(Effect::Notify(format!(
            "{name}: {}. No memory is taken from the guest",
            decision.detail
        ))),
        _ => None,
    }
}

/// Returns the values for rules about a guest and its host, besides the arbiter's inputs.
pub(crate) fn context_of(
    guest: &ManagedGuest,
    world: &World<'_>,
    host_total: Option<Bytes>,
) -> GuestContext {
    GuestContext {
        min: guest.limits.min,
        max: guest.limits.max,
        shares: guest.limits.shares,
        cpu: guest.cpu.usage.map(|usage| usage.cpu_percent),
        steal: guest.cpu.usage.map(|usage| usage.steal_percent),
        cache: guest.memory.view.and_then(|memory| memory.cached),
        host: HostMetrics {
            total: host_total,
            rates: world.host.rates,
            guests: world.guests.len(),
            ksm: world.ksm_gain,
        },
    }
}
