//! The cost of the rules themselves: compiled once, evaluated once an interval.

use crate::clock::now;
use crate::error::Error;
use crate::table::{Row, figure};
use base::{Pages, Spread};
use model::counters::{Counter, CpuField, History};
use policy::guest::{Cpus, DecidingRule, GuestDecision, Resources, step};
use rules::{Machine, Program};
use std::hint::black_box;
use std::time::Duration;

/// Number of turns in a batch, enough to make the cost of two clock reads negligible.
const TURNS: u32 = 200;
/// Number of batches. Their median excludes batches in which another process had the CPU.
const BATCHES: usize = 500;

pub fn rows() -> Result<Vec<Row>, Error> {
    let text = rules::PRESETS.first().ok_or(Error::Preset("is missing"))?.text();
    let program = compile(&text)?;
    let history = history(&program);
    let resources =
        Resources { cpus: Some(Cpus { online: ONLINE, present: ONLINE }), pool: Some(Pages(0)) };
    if !asks_all_rules(&step(&program, &history, resources)) {
        return Err(Error::Preset("decides without an evaluation of all of its rules"));
    }
    let (evaluation, note) = micros(TURNS, || {
        black_box(step(black_box(&program), black_box(&history), black_box(resources)));
    })?;
    let figure = figure(evaluation, 2, " µs");
    let evaluation = Row::promised("evaluation of the default preset", figure, 2.0).note(&note);
    let (start, note) = micros(TURNS / 20, || {
        black_box(compile(black_box(&text)).is_ok());
    })?;
    let name = "reading and compiling the default preset";
    let start = Row::plain(name, &format!("{start:.1} µs")).note(&note);
    Ok(vec![evaluation, start.note(&format!("{} bytes", text.len()))])
}

/// Returns the time of one turn in microseconds, and a note on the method.
fn micros(turns: u32, mut turn: impl FnMut()) -> Result<(f64, String), Error> {
    let mut batch = || -> Duration {
        let start = now();
        (0..turns).for_each(|_| turn());
        now() - start
    };
    // The first batch runs with cold caches.
    batch();
    let times = (0..BATCHES).map(|_| batch().as_secs_f64() * 1e6 / f64::from(turns));
    let all = Spread::of(times).ok_or(Error::Preset("takes no time"))?;
    let note = format!("median of {BATCHES} batches; the fastest: {:.2} µs", all.low);
    Ok((all.median, note))
}

fn compile(text: &str) -> Result<Program, Error> {
    let (file, _) = rules::parse(text.as_bytes());
    rules::compile(&file, &Machine::default()).0.ok_or(Error::Preset("does not compile"))
}

/// Returns true if no CPU rule and no memory rule is true. Only then have all rules been evaluated.
fn asks_all_rules(decision: &GuestDecision) -> bool {
    let cpu = decision.cpu.and_then(Result::ok);
    let memory = decision.memory.and_then(Result::ok);
    cpu.is_some_and(|d| d.rule == DecidingRule::Neither)
        && memory.is_some_and(|d| d.rule == DecidingRule::Neither)
}

const ONLINE: u32 = 2;

/// Returns a full history of two half-busy CPUs with little free memory.
fn history(program: &Program) -> History {
    let mut history = History::new(program.counters.len(), program.intervals);
    for row in 0..=program.intervals {
        let seconds = row as f64;
        for (value, counter) in history.advance().iter_mut().zip(&program.counters) {
            *value = match counter {
                Counter::Cpu(CpuField::TotalTicks) => 10_000.0 + 200.0 * seconds,
                Counter::Cpu(CpuField::User | CpuField::Idle) => 5_000.0 + 100.0 * seconds,
                Counter::OnlineCpus => f64::from(ONLINE),
                Counter::Time => seconds,
                Counter::Meminfo(name) => match &**name {
                    "MemTotal" => 1_000_000.0,
                    "Cached" => 30_000.0,
                    _ => 10_000.0,
                },
                _ => 0.0,
            };
        }
    }
    history
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_makes_the_default_preset_evaluate_all_its_rules() {
        let program = compile(&rules::PRESETS[0].text()).unwrap();
        let resources =
            Resources { cpus: Some(Cpus { online: 2, present: 2 }), pool: Some(Pages(0)) };
        let history = history(&program);
        assert!(history.is_full());
        assert!(asks_all_rules(&step(&program, &history, resources)));
    }
}
