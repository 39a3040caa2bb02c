//! What an experiment leaves behind: one JSON file, complete enough to be judged without us.
//!
//! ```text
//!   Outcome ── runs: a case in a repetition ── phases ── measures
//! ```
//!
//! Only what was measured is in it. Ratios, spreads and verdicts are derived when it is shown, so
//! that an old file can be looked at with newer eyes.

use base::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The layout that is written. Older ones stay readable: the first does not know of a run whether
/// it came to its end, nor its seed.
pub const FORMAT: u32 = 2;

/// A result file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The layout of this file: [`FORMAT`].
    pub format: u32,
    /// The experiment's name.
    pub experiment: String,
    /// Whether it was the short form, whose figures only show that everything works.
    pub quick: bool,
    /// The command as it was typed.
    pub command: String,
    /// The commit of the sources, where it is known.
    pub commit: Option<String>,
    /// What tells this build of the program from others: of a commit there may be many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// When it began, in UTC as RFC 3339 has it.
    pub started: String,
    /// How long it has taken so far.
    pub seconds: f64,
    /// What it ran on.
    pub machine: Machine,
    /// What was asked for: guests, durations, limits.
    pub settings: BTreeMap<String, String>,
    /// What was measured, in the order in which it was.
    pub runs: Vec<Run>,
    /// What a reader has to know: what failed, what was left out, what is peculiar.
    pub notes: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// What its processors call themselves.
    pub processor: String,
    /// How many there are.
    pub cpus: u32,
    /// Its memory.
    pub memory_mib: u64,
    /// Its kernel's release.
    pub kernel: String,
    /// QEMU's version, and how guests' instructions are executed.
    pub qemu: String,
}

/// A case in one repetition: "balloon", second time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What was varied.
    pub case: String,
    /// Which repetition, counted from 1: the round, in which every case has its turn.
    pub repetition: u32,
    /// What chance is made from, the same for all cases of a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether it came to its end without a failure, and needs not be run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
    /// Its phases, in their order.
    pub phases: Vec<Phase>,
}

/// A part of a run with measures of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
    /// Why it came to an early end, if it did. What had been measured until then is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What was measured.
    pub measures: Vec<Measure>,
}

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// What it is: "p99", "resident".
    pub name: String,
    /// Its unit, as it is printed.
    pub unit: String,
    /// How much.
    pub value: f64,
}

impl Outcome {
    /// The phases of this name in all repetitions of a case, with their repetition.
    pub fn phases<'a>(
        &'a self,
        case: &'a str,
        phase: &'a str,
    ) -> impl Iterator<Item = (u32, &'a Phase)> {
        let runs = self.runs.iter().filter(move |run| run.case == case);
        runs.flat_map(|run| run.phases.iter().map(|phase| (run.repetition, phase)))
            .filter(move |(_, found)| found.name == phase)
    }

    /// What was measured under a name, in all repetitions.
    pub fn values(&self, case: &str, phase: &str, measure: &str) -> Vec<(u32, f64)> {
        let found = self
            .phases(case, phase)
            .filter_map(|(repetition, phase)| Some((repetition, phase.value(measure)?)));
        found.collect()
    }

    /// The same of repetitions in which nothing failed: a claim rests on no others.
    fn sound_values(&self, case: &str, phase: &str, measure: &str) -> Vec<(u32, f64)> {
        let is_sound = |repetition: u32| {
            let run = self.run(case, repetition);
            run.is_some_and(|run| run.phases.iter().all(|phase| phase.failed.is_none()))
        };
        let mut found = self.values(case, phase, measure);
        found.retain(|(repetition, _)| is_sound(*repetition));
        found
    }

    /// A measure of a case over its repetitions, from the smallest to the largest.
    pub fn spread(&self, case: &str, phase: &str, measure: &str) -> Option<Spread> {
        Spread::of(self.values(case, phase, measure).into_iter().map(|(_, value)| value))
    }

    /// The same with the 95 % interval of its median.
    pub fn interval(&self, case: &str, phase: &str, measure: &str) -> Option<Spread> {
        let found = self.sound_values(case, phase, measure);
        Spread::interval(found.into_iter().map(|(_, value)| value))
    }

    /// The middle of it.
    pub fn median(&self, case: &str, phase: &str, measure: &str) -> Option<f64> {
        self.spread(case, phase, measure).map(|spread| spread.median)
    }

    /// A measure of a case against the same one of another case, repetition by repetition, with
    /// its 95 % interval: what makes a whole repetition slow is in both.
    pub fn ratio(&self, case: &str, base: &str, phase: &str, measure: &str) -> Option<Spread> {
        let base = self.sound_values(base, phase, measure);
        let ratio = |(repetition, value): (u32, f64)| {
            let (_, base) = base.iter().find(|(found, _)| *found == repetition)?;
            (*base > 0.0).then_some(value / base)
        };
        Spread::interval(self.sound_values(case, phase, measure).into_iter().filter_map(ratio))
    }

    /// The run of a case in a repetition.
    pub fn run(&self, case: &str, repetition: u32) -> Option<&Run> {
        self.runs.iter().find(|run| run.is(case, repetition))
    }

    /// The cases, in the order of their first runs.
    pub fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !cases.contains(&run.case.as_str()) {
                cases.push(&run.case);
            }
        }
        cases
    }

    /// Every phase that failed, as "case, repetition, phase: why".
    pub fn failures(&self) -> Vec<String> {
        let phases = self.runs.iter().flat_map(|run| run.phases.iter().map(move |p| (run, p)));
        phases
            .filter_map(|(run, phase)| {
                let why = phase.failed.as_ref()?;
                Some(format!("{}, repetition {}, {}: {why}", run.case, run.repetition, phase.name))
            })
            .collect()
    }
}

impl Run {
    /// Whether it is that of this case in this repetition.
    pub fn is(&self, case: &str, repetition: u32) -> bool {
        self.case == case && self.repetition == repetition
    }
}

impl Phase {
    /// What was measured under a name.
    pub fn value(&self, measure: &str) -> Option<f64> {
        self.measures.iter().find(|found| found.name == measure).map(|found| found.value)
    }
}

/// Collects the measures of a phase.
#[derive(Debug, Default)]
pub struct Measures(pub Vec<Measure>);

impl Measures {
    /// Notes a measure; one that is no number, or not known, stays out.
    pub fn note(&mut self, name: &str, unit: &str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.0.push(Measure { name: name.to_owned(), unit: unit.to_owned(), value });
        }
    }
}
