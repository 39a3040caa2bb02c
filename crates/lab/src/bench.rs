//! The bench on which an experiment runs: phases are timed, a failure keeps what was measured,
//! and the files are written after each.

use crate::clock::Clock;
use crate::outcome::{Measures, Outcome, Phase, Run};
use crate::site::Tools;
use crate::{Error, shelf, stop, text};
use std::path::PathBuf;

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The short form with few guests, which shows that everything works.
    pub quick: bool,
    /// How many guests, where the experiment lets one choose.
    pub guests: Option<u32>,
    /// How often each case is run.
    pub repetitions: Option<u32>,
    /// Only these cases; all of them if it is empty.
    pub cases: Vec<String>,
    /// Where the result goes.
    pub out: PathBuf,
    /// The product, of which the experiments are made.
    pub tools: Tools,
}

/// A running experiment.
pub struct Bench<'a> {
    /// What was asked for.
    pub asked: Asked,
    outcome: Outcome,
    clock: Clock,
    say: &'a mut dyn FnMut(&str),
}

impl<'a> Bench<'a> {
    /// An experiment that begins now. `outcome` has its head, and no runs yet.
    pub fn new(asked: Asked, outcome: Outcome, say: &'a mut dyn FnMut(&str)) -> Bench<'a> {
        Bench { asked, outcome, clock: Clock::new(), say }
    }

    /// Tells the watcher.
    pub fn say(&mut self, line: &str) {
        (self.say)(line);
    }

    /// The error of an experiment that somebody wants to end.
    pub fn check(&self) -> Result<(), Error> {
        stop::check_stop()
    }

    /// Whether a case was asked for.
    pub fn wants(&self, case: &str) -> bool {
        self.asked.cases.is_empty() || self.asked.cases.iter().any(|asked| asked == case)
    }

    /// Notes a setting, for the head of the result.
    pub fn setting(&mut self, name: &str, value: impl ToString) {
        self.outcome.settings.insert(name.to_owned(), value.to_string());
    }

    /// Notes what a reader has to know.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        self.say(&note);
        self.outcome.notes.push(note);
    }

    /// Runs a phase of a case. Its measures are kept whether or not it comes to its end; if it
    /// does not, there is nothing to return, and the case can decide whether to go on.
    pub fn phase<T>(
        &mut self,
        case: &str,
        repetition: u32,
        name: &str,
        body: impl FnOnce(&mut Measures) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        stop::check_stop()?;
        let began = self.clock.seconds();
        let mut measures = Measures::default();
        let result = body(&mut measures);
        let (value, failed) = match result {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(base::chain(&error))),
        };
        let seconds = self.clock.seconds() - began;
        let phase = Phase { name: name.to_owned(), seconds, failed, measures: measures.into_vec() };
        let line = format!("{case}, {repetition}: {}", text::phase_line(&phase));
        self.say(&line);
        self.run(case, repetition).phases.push(phase);
        self.save()?;
        Ok(value)
    }

    /// The result so far.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Writes the result so far; says where.
    pub fn save(&mut self) -> Result<PathBuf, Error> {
        self.outcome.seconds = self.clock.seconds();
        shelf::save(&self.outcome, &self.asked.out)
    }

    fn run(&mut self, case: &str, repetition: u32) -> &mut Run {
        let runs = &mut self.outcome.runs;
        let is_it = |run: &Run| run.case == case && run.repetition == repetition;
        let at = runs.iter().position(is_it).unwrap_or_else(|| {
            runs.push(Run { case: case.to_owned(), repetition, phases: Vec::new() });
            runs.len() - 1
        });
        &mut runs[at]
    }
}
