//! A policy at work: the arbiter with its settings and the operator's rules.
//!
//! The mind that acts sees the guests as they are. One that only looks on (a shadow policy, or
//! a dry run) sees them as if its own targets had been met: what it would have taken from a
//! guest is free on its host, and not available in its guest.

use crate::operator::{Beside, HostNumbers, Operator};
use counters::Bytes;
use policy::arbiter::{Arbiter, Config, GuestSample, HostSample, Inputs, Key, Pass, Words};
use std::collections::BTreeMap;

/// A policy.
#[derive(Debug)]
pub struct Mind {
    /// What remembers and decides.
    pub arbiter: Arbiter,
    /// How it wants its host.
    pub config: Config,
    /// The operator's rules, if there are any.
    pub operator: Option<Operator>,
    /// What each guest would have, where this mind only looks on.
    imagined: Option<BTreeMap<Key, Bytes>>,
}

impl Mind {
    /// A mind that acts.
    pub fn acting(config: Config, operator: Option<Operator>) -> Mind {
        Mind { arbiter: Arbiter::new(), config, operator, imagined: None }
    }

    /// A mind that looks on.
    pub fn onlooking(config: Config, operator: Option<Operator>) -> Mind {
        Mind { arbiter: Arbiter::new(), config, operator, imagined: Some(BTreeMap::new()) }
    }

    /// Whether its decisions are to be carried out.
    pub fn acts(&self) -> bool {
        self.imagined.is_none()
    }

    /// One pass over the host and its guests.
    pub fn think(
        &mut self,
        host: Option<&HostSample>,
        samples: &[GuestSample],
        beside: &BTreeMap<Key, Beside>,
        numbers: HostNumbers,
        now_ms: u64,
    ) -> Pass {
        let Mind { arbiter, config, operator, imagined } = self;
        let mut words = |key: Key, inputs: &Inputs| match operator {
            Some(operator) => {
                let beside = beside.get(&key).copied().unwrap_or_default();
                operator.say(key, inputs, &Beside { host: numbers, ..beside })
            }
            None => Words::default(),
        };
        let Some(imagined) = imagined else {
            return arbiter.pass(config, host, samples, &mut words, now_ms);
        };
        let mut freed = 0i128;
        let shaded: Vec<GuestSample> = samples
            .iter()
            .map(|sample| {
                let (shaded, gain) = shade(sample, imagined.get(&sample.key).copied());
                freed += gain;
                shaded
            })
            .collect();
        let host = host.map(|host| {
            let available = i128::from(host.available.0) + freed;
            HostSample { available: Bytes(available.clamp(0, u64::MAX.into()) as u64), ..*host }
        });
        let pass = arbiter.pass(config, host.as_ref(), &shaded, &mut words, now_ms);
        for decision in &pass.decisions {
            if let Some(size) = decision.command {
                imagined.insert(decision.key, size);
            }
        }
        imagined.retain(|key, _| samples.iter().any(|sample| sample.key == *key));
        pass
    }
}

/// A guest as it would be with another size, and what its host would have gained.
fn shade(sample: &GuestSample, size: Option<Bytes>) -> (GuestSample, i128) {
    let (Some(size), Some(actual)) = (size, sample.actual) else { return (*sample, 0) };
    let mut shaded = *sample;
    shaded.actual = Some(size);
    let moved = |amount: Bytes| amount.plus(size.less(actual)).less(actual.less(size));
    if let Some(memory) = &mut shaded.memory {
        memory.actual = moved(memory.actual);
        memory.available = memory.available.map(moved);
        memory.free = memory.free.map(moved);
    }
    shaded.resident = sample.resident.map(|resident| resident.min(size));
    let gain = match (sample.resident, shaded.resident) {
        (Some(before), Some(after)) => i128::from(before.0) - i128::from(after.0),
        _ => 0,
    };
    (shaded, gain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::arbiter::{Limits, Memory, Mode, Usable};

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
                max: Bytes::mib(1000),
                shares: 100,
                mode: Mode::Managed,
            },
            actual: Some(Bytes::mib(1000)),
            resident: Some(Bytes::mib(900)),
            memory: Some(memory),
            asleep: false,
            usable: Usable::Yes,
            request: None,
            asks: false,
            urgent: false,
            deflates_on_oom: true,
        }
    }

    #[test]
    fn what_would_have_been_taken_is_free_on_the_host_and_gone_from_the_guest() {
        let (shaded, gain) = shade(&sample(600), Some(Bytes::mib(700)));
        assert_eq!(shaded.actual, Some(Bytes::mib(700)));
        assert_eq!(shaded.memory.unwrap().available, Some(Bytes::mib(300)));
        assert_eq!(gain, 200 << 20);
        assert_eq!(shade(&sample(600), None), (sample(600), 0));
    }

    #[test]
    fn a_dry_run_comes_to_rest_like_the_real_thing() {
        let config = Config::of_host(Bytes::mib(10_000));
        let mut mind = Mind::onlooking(config, None);
        assert!(!mind.acts());
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
            };
            let pass =
                mind.think(Some(&host), &[guest], &BTreeMap::new(), HostNumbers::default(), now_ms);
            moves += pass.decisions.iter().filter(|d| d.command.is_some()).count();
        }
        assert!((1..12).contains(&moves), "{moves} moves for 300 MiB");
    }
}
