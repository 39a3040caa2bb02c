//! Every clause of the policy has a producer: a generated scenario, or a handmade host and guest.

use base::Bytes;
use policy::arbiter::{
    Arbiter, Clause, Config, GuestSample, HostSample, Key, Limits, Memory, Mode, Process,
    RuleVerdicts, Usable,
};
use policy::rivals::{Kind, Rival, Scene};
use sim::check::watched;
use sim::scenario::Scenario;
use std::collections::BTreeSet;

/// Maximum number of scenarios that are tried. A few dozen are enough.
const SCENARIOS: u64 = 500;

struct Case {
    host: Option<HostSample>,
    guest: GuestSample,
    verdicts: RuleVerdicts,
}

/// Returns a calm host of 64 GiB, and a guest that has half of its 8 GiB.
fn calm() -> Case {
    let half = Bytes::mib(4096);
    let memory = Memory {
        at_ms: 1000,
        clock_ms: 1000,
        actual: half,
        free: Some(Bytes::mib(1024)),
        available: Some(Bytes::mib(3072)),
        ..Memory::default()
    };
    let (min, max) = (Bytes::mib(1024), Bytes::mib(8192));
    Case {
        host: Some(HostSample {
            at_ms: 1000,
            total: Bytes::mib(65_536),
            available: Bytes::mib(7000),
            strained: false,
            page_out: Bytes::ZERO,
        }),
        guest: GuestSample {
            key: Key(1),
            limits: Limits { min, ordered: false, max, shares: 1000, mode: Mode::Managed },
            actual: Some(half),
            resident: Some(half),
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
        },
        verdicts: RuleVerdicts::default(),
    }
}

/// Returns a case for a clause that the model never reaches: an order of the operator, or a state
/// that the model lacks.
fn by_hand(clause: Clause) -> Option<Case> {
    let mut case = calm();
    match clause {
        Clause::HostPressure => case.host = case.host.map(|h| HostSample { strained: true, ..h }),
        Clause::Rule => case.verdicts.grow = Some(true),
        Clause::Request => {
            case.guest.request = Some(Bytes::mib(6144));
            case.guest.asks = true;
        }
        Clause::Pinned => case.guest.limits.mode = Mode::Pinned(Bytes::mib(2048)),
        Clause::Released => case.guest.limits.mode = Mode::Released,
        Clause::GroupFull => {
            case.verdicts.grow = Some(true);
            case.guest.process.group_max = case.guest.actual;
        }
        Clause::Locked => case.guest.process.pinned = Some("its memory is locked"),
        Clause::Unusable => case.guest.usable = Usable::No("it is paused"),
        Clause::Blind => case.host = None,
        _ => return None,
    }
    Some(case)
}

/// Returns the clause of an idle guest next to a refaulting guest, on a host at its set point.
fn beside_a_reader() -> Option<Clause> {
    let config = Config::of_host(Bytes::mib(65_536));
    let mut arbiter = Arbiter::new();
    let passes = [(1000, 0), (2000, 200)].map(|(at_ms, refaults)| {
        let calm = calm();
        let host = calm.host.map(|h| HostSample { at_ms, available: config.set_point, ..h });
        let told = |free, refaults| {
            let memory = calm.guest.memory.map(|memory| Memory {
                at_ms,
                clock_ms: at_ms,
                free: Some(Bytes::mib(free)),
                cached: Some(Bytes::mib(2048)),
                refaults: Some(refaults),
                ..memory
            });
            GuestSample { memory, ..calm.guest }
        };
        let guests = [told(64, refaults), GuestSample { key: Key(2), ..told(1024, 0) }];
        let mut verdicts = |_, _: &_| RuleVerdicts::default();
        arbiter.pass(&config, host.as_ref(), &guests, &mut verdicts, at_ms)
    });
    passes.last()?.decisions.iter().find(|of| of.key == Key(2)).map(|of| of.clause)
}

/// Returns the clause of a decision by the other manager's rules with this clause, if there are
/// any.
fn followed(clause: Clause) -> Option<Clause> {
    let rivals = Kind::ALL.iter().filter_map(|kind| Rival::of(*kind));
    let mut rival = rivals.into_iter().find(|rival| rival.clause() == clause)?;
    let case = calm();
    let (host, samples) = (case.host.as_ref(), [case.guest]);
    let scene = Scene { now_ms: 1000, host, host_psi_permille: None, samples: &samples };
    let config = Config::of_host(Bytes::mib(65_536));
    let pass = Arbiter::new().follow(&rival.pass(&scene), &config, host, &samples, 1000);
    pass.decisions.first().map(|decision| decision.clause)
}

fn decided(case: &Case) -> Option<Clause> {
    let config = Config::of_host(Bytes::mib(65_536));
    let mut verdicts = |_, _: &_| case.verdicts;
    let guests = [case.guest];
    let pass = Arbiter::new().pass(&config, case.host.as_ref(), &guests, &mut verdicts, 1000);
    pass.decisions.first().map(|decision| decision.clause)
}

#[test]
fn every_clause_has_a_producer() {
    let (mut open, beside) = (BTreeSet::new(), beside_a_reader());
    for clause in Clause::ALL {
        if followed(*clause) == Some(*clause) || beside == Some(*clause) {
            continue;
        }
        match by_hand(*clause) {
            Some(case) => assert_eq!(decided(&case), Some(*clause)),
            None => {
                open.insert(*clause);
            }
        }
    }
    for seed in 1..=SCENARIOS {
        if open.is_empty() {
            return;
        }
        // Another test checks the conditions that must hold.
        let _ = watched(Scenario::new(seed), &mut |_, ours, _| {
            let refused = ours.last.reserved.iter().filter_map(|one| one.outcome.as_ref().err());
            let refused = refused.flatten().map(|(_, clause)| clause);
            for clause in ours.last.decisions.iter().map(|d| &d.clause).chain(refused) {
                open.remove(clause);
            }
        });
    }
    panic!("no scenario produces {open:?}: add one, add a case by hand, or remove the clause");
}
