//! The arbiter in generated scenarios. A failure prints the seed and the command that repeats it.

use policy::arbiter::{Action, Key};
use sim::check::{Tally, run, watched};
use sim::policies::Ours;
use sim::scenario::Scenario;
use sim::world::{Round, World};

const SHOWN: usize = 20;
const SCENARIOS: u64 = 1000;

fn seed() -> Option<u64> {
    std::env::var("SIM_SEED").ok()?.parse().ok()
}

fn try_one(seed: u64) -> Result<Tally, String> {
    let scenario = Scenario::new(seed);
    let options = scenario.options.names().join(" ");
    let liars = scenario.liars;
    match run(scenario) {
        Ok((tally, _)) => Ok(tally),
        Err(what) => Err(format!(
            "{what}\n    options: {options}, {liars} liars\n    again: SIM_SEED={seed} cargo test \
             -p sim --test it one_scenario -- --nocapture"
        )),
    }
}

#[test]
fn conditions_hold_in_generated_scenarios() {
    let count = std::env::var("SIM_COUNT").ok().and_then(|n| n.parse().ok()).unwrap_or(SCENARIOS);
    let mut failures = Vec::new();
    let mut all = Tally::default();
    for seed in 1..=count {
        match try_one(seed) {
            Ok(tally) => all = all.with(&tally),
            Err(what) => failures.push(what),
        }
    }
    eprintln!("{count} scenarios: {all:?}");
    let shown = failures.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {count} scenarios failed:\n{shown}", failures.len());
}

#[test]
fn run_of_one_scenario_is_repeatable() {
    let seed = seed().unwrap_or(7);
    eprintln!("seed {seed}: {}", Scenario::new(seed).options.names().join(" "));
    let key = std::env::var("SIM_KEY").ok().and_then(|n| n.parse().ok()).map(Key);
    let outcome = watched(Scenario::new(seed), &mut |world, ours, round| {
        if let Some(key) = key {
            trace(world, ours, round, key);
        }
    });
    assert_eq!(outcome, run(Scenario::new(seed)));
    match outcome {
        Ok((tally, journal)) => eprintln!("{tally:?}, {} orders", journal.len()),
        Err(what) => panic!("{what}"),
    }
}

/// Prints the state of one guest in each pass, to find the reason for a failure.
fn trace(world: &World, ours: &Ours, round: Option<&Round>, key: Key) {
    let (Some(member), Some(round)) = (world.member(key), round) else { return };
    if world.now_ms == 1000 {
        eprintln!("{:#?} {:?} {:?}", member.guest.spec, member.line, member.rival);
        eprintln!("{:?} of {} MiB, own {:?}", world.config, world.total_kib >> 10, world.own);
    }
    let guest = &member.guest;
    let idle = round.samples.iter().any(|s| s.key == key && s.idle_since_sample);
    eprintln!(
        "{:>7} host {:>6} actual {:>6} resident {:>6} free {:>5} hot {:>4} cold {:>5} anon {:>5} \
         unmet {:>5} swapped {:>5} wait {:>6} starved {:?} idle {idle} kills {}",
        world.now_ms,
        world.available_kib() >> 10,
        guest.actual_kib() >> 10,
        guest.resident_kib() >> 10,
        guest.free_kib() >> 10,
        guest.held.hot_kib >> 10,
        guest.held.cold_kib >> 10,
        guest.held.anon_kib >> 10,
        guest.unmet_kib(world.now_ms) >> 10,
        guest.held.swapped_kib >> 10,
        guest.wait_us,
        member.starved_ms,
        guest.counters.oom_kills,
    );
    for d in &ours.last.decisions {
        let mark = if d.key == key { ">>" } else { "  " };
        if d.key == key || d.action != Action::Hold {
            let (from, to) = (d.from.as_mib(), d.to.as_mib());
            let (key, action, clause, bounds) = (d.key.0, d.action, d.clause, &d.bounds);
            eprintln!("      {mark} {key} {action:?} {clause:?} {from} -> {to} {bounds:?}");
            if mark == ">>" {
                eprintln!("         {:?}", d.inputs);
            }
        }
    }
    for outcome in ours.last.outcomes.iter().filter(|o| o.key == key) {
        eprintln!("      .. {outcome:?}");
    }
}
