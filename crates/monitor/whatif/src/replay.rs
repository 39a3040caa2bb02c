//! Replay of a policy's passes, unchanged or with another policy on another host.
//!
//! ```text
//!   PassInput ─► the policy's input ─────────────► Arbiter, rival ─► decisions, as in the journal
//!                      └─► Imagined: guests as they would be ─┘            │
//!                                   ▲──────────── sizes ───────────────────┘
//! ```
//!
//! If the policy is the recorded policy, each pass gives its recorded decisions again, because the
//! same code gets the same numbers. With another policy, guests behave as if they had the sizes
//! that the other policy decides ([`imagined`](crate::imagined)). The result is an estimate.

use crate::change::{Change, Names};
use crate::imagined::Imagined;
use base::Bytes;
use model::{GuestIdentity, PassEvent, PassInput};
use policy::arbiter::{
    Action, Arbiter, Clause, Config, Decision, GuestSample, HostSample, Inputs, Key, Limits, Pass,
    PassHost, PassSample, RuleVerdicts,
};
use policy::rivals::{Kind, Rival, Scene};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum time that counts between two passes. A longer time means that the manager was stopped.
const STEP_MS_MAX: u64 = 10_000;

/// Upper bound of a manager's uptime: thousands of years.
const NOW_MS_MAX: u64 = 1 << 50;

/// A decision about a guest in a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The guest.
    pub who: Arc<GuestIdentity>,
    /// Direction.
    pub action: Action,
    /// Part of the policy that decided.
    pub clause: Clause,
    /// Memory before the decision.
    pub from: Bytes,
    /// Target.
    pub to: Bytes,
    /// True if the decision sets a balloon's target.
    pub moves: bool,
    /// Reason as a sentence, if the decision moves memory.
    pub reason: String,
}

/// Result of a policy, for one guest or for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Time for which the guest ran, in milliseconds.
    pub there_ms: u64,
    /// Memory that the guest had, in bytes times milliseconds.
    pub had: u128,
    /// Memory resident on the host, in bytes times milliseconds.
    pub resident: u128,
    /// Memory that the guest needed and did not have, in bytes times milliseconds.
    pub unmet: u128,
    /// Time in which the guest needed more than it had, in milliseconds.
    pub short_ms: u64,
    /// Number of grows.
    pub grows: u64,
    /// Number of shrinks.
    pub shrinks: u64,
}

/// Scales the plan of a host to another memory size.
fn scaled(config: &Config, from: Bytes, to: Bytes) -> Config {
    let part = |size: Bytes| {
        let scaled = u128::from(size.0) * u128::from(to.0) / u128::from(from.0.max(1));
        Bytes(u64::try_from(scaled).unwrap_or(u64::MAX))
    };
    let Config { set_point, hysteresis, reserve, .. } = *config;
    let (set_point, hysteresis, reserve) = (part(set_point), part(hysteresis), part(reserve));
    Config { set_point, hysteresis, reserve, ..*config }
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.there_ms += other.there_ms;
        self.had += other.had;
        self.resident += other.resident;
        self.unmet += other.unmet;
        self.short_ms += other.short_ms;
        self.grows += other.grows;
        self.shrinks += other.shrinks;
    }

    /// Returns the number of moves.
    pub fn moves(&self) -> u64 {
        self.grows + self.shrinks
    }
}

/// Result of a policy for the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTally {
    /// Time with data, in milliseconds.
    pub ms: u64,
    /// Available memory, in bytes times milliseconds.
    pub available: u128,
    /// Time below the set point by more than the hysteresis, in milliseconds.
    pub below_ms: u64,
    /// Time below the reserve, in milliseconds.
    pub below_reserve_ms: u64,
    /// Least available memory.
    pub least: Option<Bytes>,
    /// Needs that the free memory above the reserve did not cover, in bytes times milliseconds. The
    /// need of a guest at its maximum size does not count, because no host could meet this need.
    pub lacked: u128,
    /// Memory of the host, or the budget of all guests together, in the last pass.
    pub total: Option<Bytes>,
}

impl HostTally {
    /// Returns the mean available memory; `None` without data.
    pub fn mean_available(&self) -> Option<Bytes> {
        let mean = self.available.checked_div(u128::from(self.ms))?;
        Some(Bytes(u64::try_from(mean).unwrap_or(u64::MAX)))
    }
}

/// Tallies by guests' names. The manager's keys are a faster index into the tallies.
#[derive(Default)]
struct Tallies {
    by_name: BTreeMap<String, usize>,
    by_key: BTreeMap<Key, usize>,
    all: Vec<Tally>,
}

impl Tallies {
    fn of(&mut self, key: Key, names: &Names) -> Option<&mut Tally> {
        if let Some(place) = self.by_key.get(&key) {
            return self.all.get_mut(*place);
        }
        let name = &names.get(&key)?.name;
        let place = match self.by_name.get(name) {
            Some(place) => *place,
            None => {
                self.all.push(Tally::default());
                self.by_name.insert(name.clone(), self.all.len() - 1);
                self.all.len() - 1
            }
        };
        self.by_key.insert(key, place);
        self.all.get_mut(place)
    }
}

/// Plays the passes of a recording, one after another.
pub struct Player {
    change: Change,
    arbiter: Arbiter,
    rival: Option<Rival>,
    imagined: Option<Imagined>,
    last: Option<(u64, u64)>,
    guests: Tallies,
    present: Names,
    host: HostTally,
    passes: u64,
    missing: u64,
    unread: u64,
    starts: u64,
}

impl Player {
    /// Makes a player with these differences from the recording.
    pub fn new(change: Change) -> Player {
        let imagined = (!change.is_none()).then(Imagined::default);
        Player {
            change,
            arbiter: Arbiter::new(),
            rival: None,
            imagined,
            last: None,
            guests: Tallies::default(),
            present: Names::new(),
            host: HostTally::default(),
            passes: 0,
            missing: 0,
            unread: 0,
            starts: 0,
        }
    }

    /// Resets the tallies. The policy keeps its state.
    pub fn count_from_here(&mut self) {
        (self.guests, self.host) = (Tallies::default(), HostTally::default());
        (self.passes, self.missing, self.unread, self.starts) = (0, 0, 0, 0);
    }

    /// Plays the next pass and returns its decisions.
    pub fn play(&mut self, input: &PassInput) -> Vec<Replayed> {
        let ms = self.begin(input);
        for event in &input.events {
            self.tell(event);
        }
        let host = PassHost::of(&input.host).filter(|_| input.now_ms <= NOW_MS_MAX);
        let Some(mut host) = host else {
            self.unread += 1;
            return Vec::new();
        };
        let seen: Vec<PassSample> = input
            .guests
            .iter()
            .filter_map(|(key, guest)| PassSample::of(Key(*key), &guest.row))
            .collect();
        self.unread += (input.guests.len() - seen.len()) as u64;
        let names: Names =
            input.guests.iter().map(|(key, guest)| (Key(*key), Arc::clone(&guest.who))).collect();
        let (samples, names) = self.scene(&mut host, &seen, names, ms);
        let pass = self.pass(&host, &samples, &seen, input.now_ms);
        if let Some(imagined) = &mut self.imagined {
            let targets = pass.decisions.iter().filter_map(|d| Some((d.key, d.command?)));
            imagined.set(targets);
        }
        self.count(&host, &samples, &pass, &names, ms);
        let moves =
            |decision: &Decision| decision.command.is_some() && decision.action != Action::Hold;
        let named = |decision: &Decision| Replayed {
            at_ms: input.at_ms,
            who: names.get(&decision.key).map(Arc::clone).unwrap_or_default(),
            action: decision.action,
            clause: decision.clause,
            from: decision.from,
            to: decision.to,
            moves: moves(decision),
            reason: if moves(decision) { decision.to_string() } else { String::new() },
        };
        let decisions =
            pass.decisions.iter().filter(|decision| !decision.goes_on).map(named).collect();
        self.present = names;
        decisions
    }

    /// Begins a pass and returns the time since the previous pass.
    fn begin(&mut self, input: &PassInput) -> u64 {
        let PassInput { number, now_ms, .. } = *input;
        self.passes += 1;
        let last = self.last.replace((number, now_ms));
        let is_next = last.is_some_and(|(before, at_ms)| number > before && now_ms >= at_ms);
        let Some((before, at_ms)) = last.filter(|_| is_next) else {
            // Another manager process made this pass, and its policy began without state. Passes
            // before the first played pass do not count as missing.
            self.starts += 1;
            if last.is_some() {
                self.missing = self.missing.saturating_add(number);
            }
            (self.arbiter, self.rival) = (Arbiter::new(), None);
            self.guests.by_key.clear();
            if let Some(imagined) = &mut self.imagined {
                *imagined = Imagined::default();
            }
            return 0;
        };
        self.missing = self.missing.saturating_add(number - before - 1);
        (now_ms - at_ms).min(STEP_MS_MAX)
    }

    fn tell(&mut self, event: &PassEvent) {
        match *event {
            PassEvent::Rebooted(key) => {
                self.arbiter.rebooted(Key(key));
                if let Some(imagined) = &mut self.imagined {
                    imagined.forget(Key(key));
                }
            }
            PassEvent::Reserved { id, bytes, deadline_ms, held_ms } => {
                // Reservations beyond the maximum are refused, as in the recording.
                let _ = self.arbiter.reserve(id, Bytes(bytes), deadline_ms, held_ms);
            }
            PassEvent::Unreserved(id) => self.arbiter.unreserve(id),
        }
    }

    /// Returns the policy's input, from the recording or from the imagined world.
    fn scene(
        &mut self,
        host: &mut PassHost,
        seen: &[PassSample],
        mut names: Names,
        ms: u64,
    ) -> (Vec<GuestSample>, Names) {
        let mut samples: Vec<GuestSample> = seen.iter().map(|one| one.sample).collect();
        let Some(imagined) = &mut self.imagined else { return (samples, names) };
        let recorded = host.sample.map(|sample| sample.total);
        let changed =
            imagined.see(&self.change, host.sample.as_mut(), &mut samples, &mut names, ms);
        changed.into_iter().for_each(|key| self.arbiter.rebooted(key));
        if let Some(total) = self.change.total {
            // No guest gets more than its host's memory.
            for Limits { min, max, .. } in samples.iter_mut().map(|sample| &mut sample.limits) {
                (*min, *max) = ((*min).min(total), (*max).min(total));
            }
        }
        if let Some(limits_of) = &self.change.limits {
            for sample in &mut samples {
                let name = names.get(&sample.key).map_or("", |who| who.name.as_str());
                sample.limits = limits_of(name, sample.limits);
            }
        }
        if let Some(kind) = self.change.kind {
            host.kind = kind;
        }
        if let (Some(sample), Some(recorded)) = (&host.sample, recorded) {
            host.config = scaled(&host.config, recorded, sample.total);
            if let Some(plan_of) = &self.change.plan {
                host.config = plan_of(host.config, sample.total);
            }
        }
        (samples, names)
    }

    fn pass(
        &mut self,
        host: &PassHost,
        samples: &[GuestSample],
        seen: &[PassSample],
        now_ms: u64,
    ) -> Pass {
        if self.rival.as_ref().map_or(Kind::Pinhead, Rival::kind) != host.kind {
            self.rival = Rival::of(host.kind);
        }
        let sample = host.sample.as_ref();
        if let Some(rival) = &mut self.rival {
            let host_psi_permille = host.psi_permille;
            let scene = Scene { now_ms, host: sample, host_psi_permille, samples };
            let orders = rival.pass(&scene);
            return self.arbiter.follow(&orders, &host.config, sample, samples, now_ms);
        }
        // The operator's rules belong to the policy that ran.
        let is_recorded = self.imagined.is_none();
        let mut verdicts = |key: Key, _: &Inputs| {
            let found = seen.binary_search_by_key(&key, |one| one.sample.key).ok();
            let said = found.filter(|_| is_recorded).map(|place| seen[place].verdicts);
            said.unwrap_or(RuleVerdicts::default())
        };
        self.arbiter.pass(&host.config, sample, samples, &mut verdicts, now_ms)
    }

    fn count(
        &mut self,
        host: &PassHost,
        samples: &[GuestSample],
        pass: &Pass,
        names: &Names,
        ms: u64,
    ) {
        let area = |size: Bytes| u128::from(size.0) * u128::from(ms);
        let mut wanted = Bytes::ZERO;
        // The inputs of a pass are in the order of the samples.
        for (sample, (_, inputs)) in samples.iter().zip(&pass.inputs) {
            let need = inputs.need.unwrap_or(Bytes::ZERO);
            // The policy's need leaves out memory that a guest cannot get, so `lacks` counts as
            // well.
            let lacks = self.imagined.as_ref().map_or(Bytes::ZERO, |all| all.lacks(sample.key));
            let need = need.max(lacks);
            let actual = sample.actual.unwrap_or(Bytes::ZERO);
            wanted = wanted.plus(need.min(sample.limits.max.less(actual)));
            let Some(tally) = self.guests.of(sample.key, names) else { continue };
            tally.add(&Tally {
                there_ms: ms,
                had: area(actual),
                resident: area(sample.resident.unwrap_or(Bytes::ZERO)),
                unmet: area(need),
                short_ms: if need.0 > 0 { ms } else { 0 },
                ..Tally::default()
            });
        }
        for decision in pass.decisions.iter().filter(|d| !d.goes_on && d.command.is_some()) {
            let tally = self.guests.of(decision.key, names);
            match (tally, decision.action) {
                (Some(tally), Action::Grow) => tally.grows += 1,
                (Some(tally), Action::Shrink) => tally.shrinks += 1,
                _ => {}
            }
        }
        self.count_host(host.sample.as_ref(), &host.config, wanted, ms);
    }

    fn count_host(&mut self, sample: Option<&HostSample>, config: &Config, wanted: Bytes, ms: u64) {
        let Some(&HostSample { available, total, .. }) = sample else { return };
        let host = &mut self.host;
        host.total = Some(total);
        host.ms += ms;
        host.available += u128::from(available.0) * u128::from(ms);
        let lacked = wanted.less(available.less(config.reserve));
        host.lacked += u128::from(lacked.0) * u128::from(ms);
        host.least = Some(host.least.map_or(available, |least| least.min(available)));
        if available < config.set_point.less(config.hysteresis) {
            host.below_ms += ms;
        }
        if available < config.reserve {
            host.below_reserve_ms += ms;
        }
    }

    /// Returns the result for each guest, by name.
    pub fn guests(&self) -> impl Iterator<Item = (&str, &Tally)> {
        let tallies = &self.guests;
        tallies.by_name.iter().map(|(name, place)| (name.as_str(), &tallies.all[*place]))
    }

    /// Returns the names of the guests in the last pass.
    pub fn present(&self) -> impl Iterator<Item = &str> {
        self.present.values().map(|who| who.name.as_str())
    }

    /// Returns the sum over all guests.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.guests.all.iter().for_each(|tally| total.add(tally));
        total
    }

    /// Returns the result for the host.
    pub fn host(&self) -> &HostTally {
        &self.host
    }

    /// Returns the number of passes.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// Returns the number of passes that are known to be missing.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the number of passes and guests that could not be read, because a later version
    /// recorded them.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// Returns the kind of policy that decided last.
    pub fn kind(&self) -> Kind {
        self.rival.as_ref().map_or(Kind::Pinhead, Rival::kind)
    }

    /// Returns the number of manager processes that made the recording.
    pub fn starts(&self) -> u64 {
        self.starts
    }
}
