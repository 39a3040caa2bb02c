//! One interval at a time: the values of the rules, and the resulting actions.

use base::Pages;
use model::counters::{Counter, History};
use policy::guest::{
    CpuAction, Cpus, DecidingRule, GuestDecision, Resources, RuleBound, start, step,
};
use rules::{FaultKind, Machine, Program, compile, has_errors, parse};

const CPU: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\n";
const MEMORY: &str = "UPDATE=\"1\"\nCMM_MIN=\"100\"\nCMM_MAX=\"1000\"\n";

fn program(text: &str) -> Program {
    let (file, found) = parse(text.as_bytes());
    let (program, more) = compile(&file, &Machine::default());
    assert!(!has_errors(&found) && !has_errors(&more), "{text}: {found:?} {more:?}");
    program.expect("a file without errors is a program")
}

/// Returns the program's history with this load average. The history lacks MemFree.
fn history(program: &Program, loadavg: f64) -> History {
    let mut history = History::new(program.counters.len(), program.intervals);
    for _ in 0..=program.intervals {
        let row: Vec<f64> = program
            .counters
            .iter()
            .map(|c| if *c == Counter::LoadAvg { loadavg } else { f64::NAN })
            .collect();
        history.advance().copy_from_slice(&row);
    }
    history
}

fn resources(online: u32, present: u32, pool: u64) -> Resources {
    Resources { cpus: Some(Cpus { online, present }), pool: Some(Pages(pool)) }
}

fn decide(text: &str, loadavg: f64, resources: Resources) -> GuestDecision {
    let program = program(text);
    step(&program, &history(&program, loadavg), resources)
}

/// Returns the action on the CPUs, the rule that decided and the bound.
fn cpus(
    rules: [&str; 2],
    bounds: [u32; 2],
    at: [u32; 2],
) -> (CpuAction, DecidingRule, Option<RuleBound>) {
    let [hotplug, hotunplug] = rules;
    let [min, max] = bounds;
    let text = format!(
        "UPDATE=\"1\"\nCPU_MIN=\"{min}\"\nCPU_MAX=\"{max}\"\n\
         HOTPLUG=\"{hotplug}\"\nHOTUNPLUG=\"{hotunplug}\"\n"
    );
    let decision = decide(&text, 1.0, resources(at[0], at[1], 0));
    assert_eq!(decision.memory, None, "the rules do not manage memory");
    let cpu = decision.cpu.expect("they do manage CPUs").expect("without a fault");
    (cpu.action, cpu.rule, cpu.bound)
}

/// Returns the pool's target, the bound that was met, and a negative step.
fn pool(lines: &str, at: u64) -> (u64, Option<RuleBound>, Option<i64>) {
    let decision = decide(&format!("{MEMORY}{lines}"), 1.0, resources(1, 1, at));
    assert_eq!(decision.cpu, None, "the rules do not manage CPUs");
    let memory = decision.memory.expect("they do manage memory").expect("without a fault");
    assert_eq!(memory.current, Pages(at));
    (memory.target.0, memory.bound, memory.negative)
}

#[test]
fn cpus_move_by_one_an_interval() {
    use {CpuAction::*, DecidingRule::*, RuleBound::*};
    let plug = ["1", "0"];
    assert_eq!(cpus(plug, [1, 0], [2, 4]), (CpuAction::Plug, DecidingRule::Plug, None));
    assert_eq!(cpus(plug, [1, 3], [2, 4]), (CpuAction::Plug, DecidingRule::Plug, None));
    assert_eq!(cpus(plug, [1, 0], [4, 4]), (Hold, DecidingRule::Plug, Some(Max)));
    assert_eq!(cpus(plug, [1, 2], [2, 4]), (Hold, DecidingRule::Plug, Some(Max)));
    assert_eq!(cpus(plug, [1, 9], [4, 4]), (Hold, DecidingRule::Plug, Some(Max)));
    let unplug = ["0", "1"];
    assert_eq!(cpus(unplug, [1, 0], [2, 4]), (CpuAction::Unplug, DecidingRule::Unplug, None));
    assert_eq!(cpus(unplug, [2, 0], [2, 4]), (Hold, DecidingRule::Unplug, Some(Min)));
    assert_eq!(cpus(unplug, [3, 0], [2, 4]), (Hold, DecidingRule::Unplug, Some(Min)));
    assert_eq!(cpus(["0", "0"], [1, 0], [2, 4]), (Hold, Neither, None));
}

#[test]
fn plugging_overrules_and_the_other_rule_is_not_asked() {
    let both = cpus(["1", "1"], [1, 0], [2, 4]);
    assert_eq!(both, (CpuAction::Plug, DecidingRule::Plug, None));
    assert_eq!(cpus(["1", "1 / 0"], [1, 0], [2, 4]), both);
    // If a bound stops one rule, the other rule is still not used.
    let full = cpus(["1", "1"], [1, 2], [2, 4]);
    assert_eq!(full, (CpuAction::Hold, DecidingRule::Plug, Some(RuleBound::Max)));
}

#[test]
fn the_pool_grows_and_shrinks_by_whole_pages() {
    let rules = |plug: u8, unplug: u8| {
        format!("MEMPLUG=\"{plug}\"\nMEMUNPLUG=\"{unplug}\"\nCMM_INC=\"50.9\"\nCMM_DEC=\"30.9\"\n")
    };
    assert_eq!(pool(&rules(0, 1), 500), (550, None, None));
    assert_eq!(pool(&rules(1, 0), 500), (470, None, None));
    assert_eq!(pool(&rules(1, 1), 500), (470, None, None));
    assert_eq!(pool(&rules(0, 0), 500), (500, None, None));
    let one_step = "MEMPLUG=\"1\"\nMEMUNPLUG=\"0\"\nCMM_INC=\"loadavg * 50\"\n";
    assert_eq!(pool(one_step, 500), (450, None, None), "CMM_DEC is CMM_INC where it is not set");
}

#[test]
fn the_pool_stays_within_its_bounds() {
    let rules = |plug: u8, unplug: u8, step: &str| {
        format!("MEMPLUG=\"{plug}\"\nMEMUNPLUG=\"{unplug}\"\nCMM_INC=\"{step}\"\n")
    };
    assert_eq!(pool(&rules(0, 1, "200"), 900), (1000, Some(RuleBound::Max), None));
    assert_eq!(pool(&rules(0, 1, "100"), 900), (1000, None, None));
    assert_eq!(pool(&rules(1, 0, "200"), 150), (100, Some(RuleBound::Min), None));
    assert_eq!(pool(&rules(1, 0, "1e18"), 150), (100, Some(RuleBound::Min), None));
    assert_eq!(pool(&rules(0, 1, "9e18"), 150), (1000, Some(RuleBound::Max), None));
    // Another program's change is reverted, whatever the rules request.
    assert_eq!(pool(&rules(0, 0, "1"), 5000), (1000, Some(RuleBound::Max), None));
    assert_eq!(pool(&rules(0, 0, "1"), 0), (100, Some(RuleBound::Min), None));
}

#[test]
fn a_negative_step_is_reported_and_counts_as_none() {
    let rules = |plug: u8, unplug: u8| {
        format!("MEMPLUG=\"{plug}\"\nMEMUNPLUG=\"{unplug}\"\nCMM_INC=\"-50\"\nCMM_DEC=\"0-7.9\"\n")
    };
    assert_eq!(pool(&rules(0, 1), 500), (500, None, Some(-50)));
    assert_eq!(pool(&rules(1, 0), 500), (500, None, Some(-7)));
    assert_eq!(pool(&rules(0, 0), 500), (500, None, None), "no step is taken");
    let small = "MEMPLUG=\"0\"\nMEMUNPLUG=\"1\"\nCMM_INC=\"-0.9\"\n";
    assert_eq!(pool(small, 500), (500, None, None), "-0.9 is no page");
}

#[test]
fn a_fault_holds_its_own_group_only() {
    let rules = |hotplug: &str, inc: &str| {
        format!(
            "{CPU}{MEMORY}HOTPLUG=\"{hotplug}\"\nHOTUNPLUG=\"0\"\n\
             MEMPLUG=\"0\"\nMEMUNPLUG=\"1\"\nCMM_INC=\"{inc}\"\n"
        )
    };
    let kinds = |text: &str| {
        let decision = decide(text, 1.0, resources(2, 4, 500));
        let cpu = decision.cpu.expect("CPUs are managed").map(|d| d.action);
        let memory = decision.memory.expect("memory is managed").map(|d| d.target);
        (cpu.map_err(|f| f.kind), memory.map_err(|f| f.kind))
    };
    use FaultKind::{DivisionByZero, Invalid, Missing, Overflow};
    let (plug, grow) = (Ok(CpuAction::Plug), Ok(Pages(510)));
    assert_eq!(kinds(&rules("1", "10")), (plug, grow));
    assert_eq!(kinds(&rules("1 / (loadavg - 1)", "10")), (Err(DivisionByZero), grow));
    assert_eq!(kinds(&rules("1", "10 / (loadavg - 1)")), (plug, Err(DivisionByZero)));
    assert_eq!(kinds(&rules("1", "1e300 * 1e300")), (plug, Err(Overflow)));
    // The value is known, but no pool can have that size.
    assert_eq!(kinds(&rules("1", "1e300")), (plug, Err(Invalid)));
    let missing = kinds(&rules("meminfo.MemFree > 1", "10"));
    assert_eq!(missing, (Err(Missing { slot: 0, age: 0 }), grow));
}

#[test]
fn a_step_is_computed_even_where_no_rule_needs_it() {
    // The original also changes nothing here, and pinhead must behave in the same way.
    let lines = "MEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\nCMM_INC=\"1\"\nCMM_DEC=\"1 / 0\"\n";
    let decision = decide(&format!("{MEMORY}{lines}"), 1.0, resources(1, 1, 5000));
    let fault = decision.memory.and_then(Result::err).map(|f| f.kind);
    assert_eq!(fault, Some(FaultKind::DivisionByZero));
}

#[test]
fn missing_resources_get_no_decision() {
    let text = format!(
        "{CPU}{MEMORY}HOTPLUG=\"1\"\nHOTUNPLUG=\"0\"\n\
         MEMPLUG=\"0\"\nMEMUNPLUG=\"1\"\nCMM_INC=\"10\"\n"
    );
    let nothing = Resources { cpus: None, pool: None };
    let decision = decide(&text, 1.0, nothing);
    assert_eq!(decision, GuestDecision { cpu: None, memory: None });
    assert_eq!(start(&program(&text), nothing).cpus, None);
    assert_eq!(start(&program(&text), nothing).pool, None);
}

#[test]
fn the_start_brings_both_into_their_bounds() {
    let at = |lines: &str, resources| {
        let text = format!(
            "{CPU}{MEMORY}HOTPLUG=\"0\"\nHOTUNPLUG=\"0\"\n\
             MEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\nCMM_INC=\"10\"\n{lines}"
        );
        let start = start(&program(&text), resources);
        (start.cpus.expect("managed"), start.pool.expect("managed").0)
    };
    assert_eq!(at("", resources(2, 4, 500)), (2, 500));
    assert_eq!(at("CPU_MIN=\"3\"\n", resources(2, 4, 0)), (3, 100));
    assert_eq!(at("CPU_MAX=\"2\"\n", resources(4, 4, 5000)), (2, 1000));
    assert_eq!(at("CPU_MAX=\"64\"\n", resources(4, 4, 100)), (4, 100));
}

#[test]
fn a_decision_is_shown_in_words() {
    let text = format!(
        "{CPU}{MEMORY}HOTPLUG=\"0\"\nHOTUNPLUG=\"loadavg < 2\"\n\
         MEMPLUG=\"0\"\nMEMUNPLUG=\"1\"\nCMM_INC=\"800\"\n"
    );
    let decision = decide(&text, 1.0, resources(2, 4, 500));
    let cpu = decision.cpu.and_then(Result::ok).map(|d| d.to_string());
    let memory = decision.memory.and_then(Result::ok).map(|d| d.to_string());
    assert_eq!(cpu.as_deref(), Some("HOTUNPLUG: one CPU less"));
    let expected = "MEMUNPLUG: pool 500 -> 1000 pages (CMM_MAX)";
    assert_eq!(memory.as_deref(), Some(expected));
}
