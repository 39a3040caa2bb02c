//! Result of an experiment in one JSON file, which contains all that is needed to judge the result.
//!
//! ```text
//!   Outcome ── runs: a case in a repetition ── phases ── measures
//! ```
//!
//! The file contains only measured values. Ratios, spreads and verdicts are computed for display,
//! so newer code can judge an old file.

use base::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the written layout. Older layouts stay readable. In the first layout, runs have
/// neither a seed nor a mark that they are finished.
pub const FORMAT: u32 = 2;

/// A result file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Layout of this file: [`FORMAT`].
    pub format: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// True for the short form, which only shows that everything works.
    pub quick: bool,
    /// Command with its arguments.
    pub command: String,
    /// Commit of the sources, if known.
    pub commit: Option<String>,
    /// Identity of this build of the program. One commit may have many builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Start time, in UTC by RFC 3339.
    pub started: String,
    /// Duration so far.
    pub seconds: f64,
    /// The machine.
    pub machine: Machine,
    /// The settings: guests, durations, limits.
    pub settings: BTreeMap<String, String>,
    /// The runs, in the order of their execution.
    pub runs: Vec<Run>,
    /// Notes for the reader: failures, omissions, peculiarities.
    pub notes: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Model name of the processors.
    pub processor: String,
    /// Number of processors.
    pub cpus: u32,
    /// Memory of the machine.
    pub memory_mib: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// QEMU's version, and its accelerator (KVM or emulation).
    pub qemu: String,
}

/// A case in one repetition, such as "balloon" in the second repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Name of the case.
    pub case: String,
    /// Number of the repetition, counted from 1: the round, in which every case has its turn.
    pub repetition: u32,
    /// Seed, the same for all cases of a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// True if the run ended without a failure, and need not be repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
    /// Phases, in order.
    pub phases: Vec<Phase>,
}

/// A part of a run, with its measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Duration.
    pub seconds: f64,
    /// Reason for an early end, if any. Earlier measures are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The measures.
    pub measures: Vec<Measure>,
}

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Name: "p99", "resident".
    pub name: String,
    /// Unit, as printed.
    pub unit: String,
    /// The value.
    pub value: f64,
}

impl Outcome {
    /// Returns the phases of this name in all repetitions of a case, each with the number of its
    /// repetition.
    pub fn phases<'a>(
        &'a self,
        case: &'a str,
        phase: &'a str,
    ) -> impl Iterator<Item = (u32, &'a Phase)> {
        let runs = self.runs.iter().filter(move |run| run.case == case);
        runs.flat_map(|run| run.phases.iter().map(|phase| (run.repetition, phase)))
            .filter(move |(_, found)| found.name == phase)
    }

    /// Returns the values of a measure in all repetitions.
    pub fn values(&self, case: &str, phase: &str, measure: &str) -> Vec<(u32, f64)> {
        let found = self
            .phases(case, phase)
            .filter_map(|(repetition, phase)| Some((repetition, phase.value(measure)?)));
        found.collect()
    }

    /// Returns the values from repetitions without a failure. Only such values support a claim.
    fn sound_values(&self, case: &str, phase: &str, measure: &str) -> Vec<(u32, f64)> {
        let is_sound = |repetition: u32| {
            let run = self.run(case, repetition);
            run.is_some_and(|run| run.phases.iter().all(|phase| phase.failed.is_none()))
        };
        let mut found = self.values(case, phase, measure);
        found.retain(|(repetition, _)| is_sound(*repetition));
        found
    }

    /// Returns a measure's spread over the repetitions of a case, from the smallest to the largest.
    pub fn spread(&self, case: &str, phase: &str, measure: &str) -> Option<Spread> {
        Spread::of(self.values(case, phase, measure).into_iter().map(|(_, value)| value))
    }

    /// Returns the median of a measure with its 95 % interval, from repetitions without a failure.
    pub fn interval(&self, case: &str, phase: &str, measure: &str) -> Option<Spread> {
        let found = self.sound_values(case, phase, measure);
        Spread::interval(found.into_iter().map(|(_, value)| value))
    }

    /// Returns the median of a measure.
    pub fn median(&self, case: &str, phase: &str, measure: &str) -> Option<f64> {
        self.spread(case, phase, measure).map(|spread| spread.median)
    }

    /// Returns the ratio of a case's measure to another case's measure, with its 95 % interval.
    /// Ratios are taken within a repetition, because a slow repetition affects both cases.
    pub fn ratio(&self, case: &str, base: &str, phase: &str, measure: &str) -> Option<Spread> {
        let base = self.sound_values(base, phase, measure);
        let ratio = |(repetition, value): (u32, f64)| {
            let (_, base) = base.iter().find(|(found, _)| *found == repetition)?;
            (*base > 0.0).then_some(value / base)
        };
        Spread::interval(self.sound_values(case, phase, measure).into_iter().filter_map(ratio))
    }

    /// Returns the run of a case in a repetition.
    pub fn run(&self, case: &str, repetition: u32) -> Option<&Run> {
        self.runs.iter().find(|run| run.is(case, repetition))
    }

    /// Returns the cases, in the order of their first runs.
    pub fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !cases.contains(&run.case.as_str()) {
                cases.push(&run.case);
            }
        }
        cases
    }

    /// Returns every failed phase, as "case, repetition, phase: reason".
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
    /// Returns true for the run of this case in this repetition.
    pub fn is(&self, case: &str, repetition: u32) -> bool {
        self.case == case && self.repetition == repetition
    }
}

impl Phase {
    /// Returns the value of a measure.
    pub fn value(&self, measure: &str) -> Option<f64> {
        self.measures.iter().find(|found| found.name == measure).map(|found| found.value)
    }
}

/// The measures of a phase, while it runs.
#[derive(Debug, Default)]
pub struct Measures(pub Vec<Measure>);

impl Measures {
    /// Adds a measure, unless the value is missing or not finite.
    pub fn note(&mut self, name: &str, unit: &str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.0.push(Measure { name: name.to_owned(), unit: unit.to_owned(), value });
        }
    }
}
