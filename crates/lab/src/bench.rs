//! The bench on which an experiment runs: phases are timed, a failure keeps what was measured,
//! and the files are written after each.

use crate::clock;
use crate::outcome::{Measures, Outcome, Phase, Run};
use crate::site::{Manager, Settings, Site, Tools};
use crate::{Error, shelf, stop, text};
use std::path::PathBuf;
use std::time::Duration;

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
    began_s: f64,
    progress: &'a mut dyn FnMut(&str),
}

impl<'a> Bench<'a> {
    /// An experiment that begins now. `outcome` has its head, and no runs yet.
    pub fn new(asked: Asked, outcome: Outcome, progress: &'a mut dyn FnMut(&str)) -> Bench<'a> {
        Bench { asked, outcome, began_s: clock::seconds(), progress }
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
        (self.progress)(&note);
        self.outcome.notes.push(note);
    }

    /// A case in a repetition.
    pub fn case<'b>(&'b mut self, name: &'b str, repetition: u32) -> Case<'b, 'a> {
        Case { bench: self, name, repetition }
    }

    /// The result so far.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Writes the result so far; gives its path.
    pub fn save(&mut self) -> Result<PathBuf, Error> {
        self.outcome.seconds = clock::seconds() - self.began_s;
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

/// A case in a repetition.
pub struct Case<'b, 'a> {
    bench: &'b mut Bench<'a>,
    name: &'b str,
    repetition: u32,
}

impl Case<'_, '_> {
    /// Runs a phase. Its measures are kept whether or not it comes to its end; if it does not,
    /// there is nothing to return, and the case can decide whether to go on.
    pub fn phase<T>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut Measures) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        stop::check_stop()?;
        let began_s = clock::seconds();
        let mut measures = Measures::default();
        let result = body(&mut measures);
        let seconds = clock::seconds() - began_s;
        let failed = result.as_ref().err().map(|error| base::chain(error));
        let phase = Phase { name: name.to_owned(), seconds, failed, measures: measures.0 };
        let Case { bench, name, repetition } = self;
        (bench.progress)(&format!("{name}, {repetition}: {}", text::phase_line(&phase)));
        bench.run(name, *repetition).phases.push(phase);
        bench.save()?;
        Ok(result.ok())
    }

    /// The phase in which a farm comes up, with what else is to be noted of it.
    pub fn start(
        &mut self,
        farm: &str,
        limit: Duration,
        note: impl FnOnce(&Site, &mut Measures),
    ) -> Result<Option<Site>, Error> {
        let tools = self.bench.asked.tools.clone();
        self.phase("start", |measures| {
            let site = Site::up(&tools, farm, limit)?;
            measures.note("all answer after", "s", site.ready_s);
            note(&site, measures);
            Ok(site)
        })
    }

    /// A phase in which a manager starts over a farm.
    pub fn manage(
        &mut self,
        phase: &str,
        site: &Site,
        settings: &Settings,
        then: impl FnOnce(&Manager, &mut Measures) -> Result<(), Error>,
    ) -> Result<Option<Manager>, Error> {
        let tools = self.bench.asked.tools.clone();
        self.phase(phase, |measures| {
            let manager = Manager::start(&tools, site, settings)?;
            then(&manager, measures)?;
            Ok(manager)
        })
    }
}
