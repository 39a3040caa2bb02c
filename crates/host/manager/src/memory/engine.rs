//! A policy engine: the arbiter with its settings and the operator's rules. Instead of pinhead's
//! own rules, the arbiter can carry out another manager's rules (`[policy] kind`).
//!
//! The input of an active engine is the real state of the guests. A shadow (a second policy, or a
//! dry run) decides but changes nothing. A shadow's input shows the guests as if its own targets
//! had been met. Memory that the shadow would have reclaimed counts as free on the host, and not as
//! available in the guest.

use super::rules::{GuestContext, OperatorRules};
use crate::Error;
use crate::config::{Loaded, Settings};
use base::Bytes;
use model::{PassField, PassGuestField, Row};
use policy::arbiter::{
    Arbiter, Config, GuestSample, HostSample, Inputs, Key, Pass, PassHost, PassSample, RuleVerdicts,
};
use policy::rivals::{Kind, Rival, Scene};
use std::collections::BTreeMap;

/// A policy with its state.
#[derive(Debug)]
pub(crate) struct PolicyEngine {
    /// The arbiter, which decides, or carries out the decisions of `rival`.
    pub arbiter: Arbiter,
    /// Other managers' rules, if configured.
    rival: Option<Rival>,
    /// Targets for the host's memory.
    pub config: Config,
    /// The operator's rules, if any.
    pub rules: Option<OperatorRules>,
    /// Imagined size of each guest in a shadow; `None` if decisions are carried out.
    imagined: Option<BTreeMap<Key, Bytes>>,
    /// True if the inputs of passes are recorded.
    is_recorded: bool,
    /// Inputs of the last pass, if recorded.
    seen: Option<Seen>,
}

/// Inputs of a pass, as recorded.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) host: Row<PassField>,
    pub(super) guests: Vec<(Key, Row<PassGuestField>)>,
}

/// Returns the active engine, and the engine and settings of the shadow if one is configured. In a
/// dry run the active engine decides, but changes nothing.
pub(crate) fn engines(
    loaded: &Loaded,
    acts: bool,
    total: Bytes,
) -> Result<(PolicyEngine, Option<(PolicyEngine, Settings)>), Error> {
    let make = |settings: &Settings, acts: bool| -> Result<PolicyEngine, Error> {
        let rules = settings.policy.rules.as_deref().map(OperatorRules::load).transpose()?;
        let imagined = (!acts).then(BTreeMap::new);
        let rival = Rival::of(settings.policy.kind);
        let (arbiter, config) = (Arbiter::new(), plan(settings, total));
        let is_recorded = false;
        Ok(PolicyEngine { arbiter, rival, config, rules, imagined, is_recorded, seen: None })
    };
    let engine = make(&loaded.settings, acts)?;
    let shadow = match &loaded.shadow {
        Some(shadow) => Some((make(shadow, false)?, shadow.clone())),
        None => None,
    };
    Ok((engine, shadow))
}

/// Returns the targets for a host of this size. Shares are relative to the memory that guests may
/// use.
pub(crate) fn plan(settings: &Settings, total: Bytes) -> Config {
    settings.arbiter(settings.budget(total).unwrap_or(total))
}

impl PolicyEngine {
    /// Inherits the guests' state from an earlier engine. The state of another manager's rules is
    /// only inherited by the same rules.
    pub fn succeed(&mut self, before: PolicyEngine) {
        self.arbiter = before.arbiter;
        self.is_recorded = before.is_recorded;
        let kind = |rival: &Option<Rival>| rival.as_ref().map(Rival::kind);
        if kind(&before.rival) == kind(&self.rival) {
            self.rival = before.rival;
        }
    }

    /// Records the inputs of passes from now on.
    pub fn record(&mut self) {
        self.is_recorded = true;
    }

    pub(super) fn take_seen(&mut self) -> Option<Seen> {
        self.seen.take()
    }

    /// Runs one pass over the host and its guests.
    pub fn decide(&mut self, scene: &Scene<'_>, contexts: &BTreeMap<Key, GuestContext>) -> Pass {
        let Some(imagined) = self.imagined.as_ref() else { return self.pass(scene, contexts) };
        let mut freed = 0i128;
        let shadowed: Vec<GuestSample> = scene
            .samples
            .iter()
            .map(|sample| {
                let (shadowed, gain) = as_if(sample, imagined.get(&sample.key).copied());
                freed += gain;
                shadowed
            })
            .collect();
        let host = scene.host.map(|host| {
            let available = i128::from(host.available.0) + freed;
            HostSample { available: Bytes(available.clamp(0, u64::MAX.into()) as u64), ..*host }
        });
        let pass =
            self.pass(&Scene { host: host.as_ref(), samples: &shadowed, ..*scene }, contexts);
        if let Some(imagined) = &mut self.imagined {
            let targets = pass.decisions.iter().filter_map(|d| Some((d.key, d.command?)));
            imagined.extend(targets);
            imagined.retain(|key, _| shadowed.iter().any(|sample| sample.key == *key));
        }
        pass
    }

    fn pass(&mut self, scene: &Scene<'_>, contexts: &BTreeMap<Key, GuestContext>) -> Pass {
        let PolicyEngine { arbiter, rival, config, rules, .. } = self;
        let Scene { now_ms, host, samples, .. } = *scene;
        let mut said = BTreeMap::new();
        let pass = match rival {
            Some(rival) => {
                let orders = rival.pass(scene);
                arbiter.follow(&orders, config, host, samples, now_ms)
            }
            None => {
                let mut verdicts = |key: Key, inputs: &Inputs| match rules {
                    Some(rules) => {
                        let context = contexts.get(&key).copied().unwrap_or_default();
                        let verdicts = rules.verdicts(key, inputs, &context);
                        said.insert(key, verdicts);
                        verdicts
                    }
                    None => RuleVerdicts::default(),
                };
                arbiter.pass(config, host, samples, &mut verdicts, now_ms)
            }
        };
        if self.is_recorded {
            self.seen = Some(self.see(scene, &said));
        }
        pass
    }

    fn see(&self, scene: &Scene<'_>, said: &BTreeMap<Key, RuleVerdicts>) -> Seen {
        let host = PassHost {
            config: self.config,
            kind: self.rival.as_ref().map_or(Kind::Pinhead, Rival::kind),
            sample: scene.host.copied(),
            psi_permille: scene.host_psi_permille,
        };
        let row = |sample: &GuestSample| {
            let verdicts = said.get(&sample.key).copied().unwrap_or_default();
            (sample.key, PassSample { sample: *sample, verdicts }.row())
        };
        Seen { host: host.row(), guests: scene.samples.iter().map(row).collect() }
    }
}

/// Returns a guest as it would be with another size, and the gain of the host.
fn as_if(sample: &GuestSample, size: Option<Bytes>) -> (GuestSample, i128) {
    let (Some(size), Some(actual)) = (size, sample.actual) else { return (*sample, 0) };
    let mut shadowed = *sample;
    shadowed.actual = Some(size);
    let moved = |amount: Bytes| amount.plus(size.less(actual)).less(actual.less(size));
    if let Some(memory) = &mut shadowed.memory {
        memory.actual = moved(memory.actual);
        memory.available = memory.available.map(moved);
        memory.free = memory.free.map(moved);
    }
    shadowed.resident = sample.resident.map(|resident| resident.min(size));
    let gain = match (sample.resident, shadowed.resident) {
        (Some(before), Some(after)) => i128::from(before.0) - i128::from(after.0),
        _ => 0,
    };
    (shadowed, gain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::arbiter::{Limits, Memory, Mode, Process, Usable};
    use policy::rivals::Kind;

    fn sample(available: u64) -> GuestSample {
        let memory = Memory {
            at_ms: 5,
            clock_ms: 5,
            actual: Bytes::mib(1000),
            available: Some(Bytes::mib(available)),
            ..Memory::default()
        };
        GuestSample {
            key: Key(1),
            limits: Limits {
                min: Bytes::mib(100),
                ordered: false,
                max: Bytes::mib(1000),
                shares: 100,
                mode: Mode::Managed,
            },
            actual: Some(Bytes::mib(1000)),
            resident: Some(Bytes::mib(900)),
            doubtful: Bytes::ZERO,
            process: Process::default(),
            swapped: None,
            runs: Some(true),
            memory: Some(memory),
            idle_since_sample: false,
            usable: Usable::Yes,
            request: None,
            asks: false,
            urgent: false,
            deflates_on_oom: true,
        }
    }

    #[test]
    fn imagined_shrink_frees_host_memory_and_leaves_the_guest_less() {
        let (shadowed, gain) = as_if(&sample(600), Some(Bytes::mib(700)));
        assert_eq!(shadowed.actual, Some(Bytes::mib(700)));
        assert_eq!(shadowed.memory.unwrap().available, Some(Bytes::mib(300)));
        assert_eq!(gain, 200 << 20);
        assert_eq!(as_if(&sample(600), None), (sample(600), 0));
    }

    #[test]
    fn a_dry_run_comes_to_rest_like_the_real_thing() {
        let config = Config::of_host(Bytes::mib(10_000));
        let mut engine = dry(config, None);
        let moves = moves(&mut engine);
        assert!((1..12).contains(&moves), "{moves} moves for 300 MiB");
    }

    #[test]
    fn a_dry_run_of_other_rules_sees_its_own_targets_met() {
        let config = Config::of_host(Bytes::mib(10_000));
        let mut engine = dry(config, Rival::of(Kind::Proxmox));
        // The host needs 1300 MiB more to have a fifth of its memory free. Up to 900 MiB can be
        // reclaimed from the guest, 100 MiB every ten seconds.
        assert_eq!(moves(&mut engine), 5);
        let imagined = engine.imagined.as_ref().and_then(|sizes| sizes.get(&Key(1)).copied());
        assert_eq!(imagined, Some(Bytes::mib(500)));
        // An engine with the same rules inherits the state of the rules. Other rules start from
        // scratch.
        let remembered = engine.rival.clone();
        assert_ne!(remembered, Rival::of(Kind::Proxmox));
        let mut next = dry(config, Rival::of(Kind::Proxmox));
        next.succeed(engine);
        assert_eq!(next.rival, remembered);
        let mut other = dry(config, Rival::of(Kind::Mom));
        other.succeed(next);
        assert_eq!(other.rival, Rival::of(Kind::Mom));
    }

    fn dry(config: Config, rival: Option<Rival>) -> PolicyEngine {
        let imagined = Some(BTreeMap::new());
        PolicyEngine {
            arbiter: Arbiter::new(),
            rival,
            config,
            rules: None,
            imagined,
            is_recorded: false,
            seen: None,
        }
    }

    /// Returns the moves per minute of a guest with 800 of its 1000 MiB to spare.
    fn moves(engine: &mut PolicyEngine) -> usize {
        let mut moves = 0;
        for second in 1..60 {
            let now_ms = second * 1000;
            let mut guest = sample(800);
            if let Some(memory) = &mut guest.memory {
                (memory.at_ms, memory.clock_ms) = (now_ms, now_ms);
            }
            let host = HostSample {
                at_ms: now_ms,
                total: Bytes::mib(10_000),
                available: Bytes::mib(700),
                strained: false,
                page_out: Bytes::ZERO,
            };
            let samples = [guest];
            let host = Some(&host);
            let scene = Scene { now_ms, host, host_psi_permille: None, samples: &samples };
            let pass = engine.decide(&scene, &BTreeMap::new());
            moves += pass.decisions.iter().filter(|d| d.command.is_some()).count();
        }
        moves
    }
}
