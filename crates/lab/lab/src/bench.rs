//! The bench that runs an experiment. Cases take turns (A B C, A B C, ...), and phases are timed. A
//! failed phase keeps its measures, and the result's files are written after each phase.

use crate::clock;
use crate::outcome::{Measures, Outcome, Phase, Run};
use crate::site::{Manager, Settings, Site, Tools};
use crate::{Error, View, shelf, stop, text};
use std::path::PathBuf;
use std::time::Duration;

/// The requested options.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// True for the short form with few guests, which only shows that everything works.
    pub quick: bool,
    /// Number of guests, if the experiment permits a choice.
    pub guests: Option<u32>,
    /// Repetitions of each case.
    pub repetitions: Option<u32>,
    /// Number of requests in a case, if the experiment requests pages at a rate.
    pub requests: Option<u32>,
    /// Earlier result with sizes by hand, used in place of a new search.
    pub sizes: Option<PathBuf>,
    /// Cases to run. If the list is empty, the usual cases run.
    pub cases: Vec<String>,
    /// Path of the result.
    pub out: PathBuf,
    /// Programs and files of pinhead, used by the experiments.
    pub tools: Tools,
}

/// A running experiment.
pub struct Bench<'a> {
    /// The requested options.
    pub asked: Asked,
    outcome: Outcome,
    view: fn(&Outcome) -> View,
    began_s: f64,
    progress: &'a mut dyn FnMut(&str),
}

impl<'a> Bench<'a> {
    /// Starts an experiment if `outcome` has no runs, and otherwise resumes the experiment. `view`
    /// derives the contents of the result's page.
    pub fn new(
        asked: Asked,
        outcome: Outcome,
        view: fn(&Outcome) -> View,
        progress: &'a mut dyn FnMut(&str),
    ) -> Bench<'a> {
        let began_s = clock::seconds() - outcome.seconds;
        Bench { asked, outcome, view, began_s, progress }
    }

    /// Returns the cases to run, in the experiment's order: the requested cases, or the usual cases
    /// if none is requested.
    pub fn choose<'n>(&self, all: &[&'n str], usual: &[&'n str]) -> Result<Vec<&'n str>, Error> {
        let asked = &self.asked.cases;
        if let Some(unknown) = asked.iter().find(|case| !all.contains(&case.as_str())) {
            let known = all.join("\", \"");
            return Err(Error::Failed(format!(
                "There is no case {unknown:?}; the cases are \"{known}\""
            )));
        }
        let is_chosen = |case: &&&str| match asked.is_empty() {
            true => usual.contains(*case),
            false => asked.iter().any(|asked| asked == **case),
        };
        Ok(all.iter().filter(is_chosen).copied().collect())
    }

    /// Removes the cases that cannot be run here, and adds a note about each removed case.
    pub fn leave_out<'n>(
        &mut self,
        mut cases: Vec<&'n str>,
        is_impossible: impl Fn(&str) -> bool,
        why: &str,
    ) -> Vec<&'n str> {
        for case in cases.iter().filter(|case| is_impossible(case)) {
            let note = format!("{case:?} is left out: {why}.");
            if !self.outcome.notes.contains(&note) {
                self.note(note);
            }
        }
        cases.retain(|case| !is_impossible(case));
        cases
    }

    /// Stores a setting in the head of the result. A resumed result must have the same setting,
    /// because figures under different settings must not be mixed.
    pub fn setting(&mut self, name: &str, value: impl ToString) -> Result<(), Error> {
        let value = value.to_string();
        match self.outcome.settings.get(name) {
            Some(before) if *before != value => Err(Error::Failed(format!(
                "The result was begun with {before} for {name:?}, but the value is now {value}: \
                 use the earlier value, or omit `--resume`"
            ))),
            Some(_) => Ok(()),
            None => {
                self.outcome.settings.insert(name.to_owned(), value);
                Ok(())
            }
        }
    }

    /// Adds a note for the reader.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        (self.progress)(&note);
        self.outcome.notes.push(note);
    }

    /// Adopts a run of another result as if it had been measured here, unless this result already
    /// has the finished run.
    pub fn take_over(&mut self, run: Run, from: &Outcome) {
        if !self.is_finished(&run.case, run.repetition) {
            self.discard(&run.case, run.repetition);
            let commit = from.commit.as_deref().unwrap_or("not known");
            let (case, started) = (&run.case, &from.started);
            self.note(format!("{case:?} comes from the result of {started}, commit {commit}."));
            self.outcome.runs.push(run);
        }
    }

    /// Runs every case once in every round, and skips finished runs.
    pub fn rounds(
        &mut self,
        rounds: u32,
        cases: &[&str],
        mut body: impl FnMut(&mut Case<'_, 'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for round in 1..=rounds {
            for name in cases {
                if self.is_finished(name, round) {
                    continue;
                }
                self.discard(name, round);
                body(&mut self.case(name, round))?;
                self.finish(name, round)?;
            }
        }
        Ok(())
    }

    /// Removes all runs of unfinished rounds. The farms were started again, so the rest of an
    /// unfinished round would run on other farms than its beginning.
    pub fn discard_open_rounds(&mut self, rounds: u32, cases: &[&str]) {
        for round in 1..=rounds {
            if cases.iter().all(|name| self.is_finished(name, round)) {
                continue;
            }
            for name in cases {
                self.discard(name, round);
            }
        }
    }

    /// Returns true if all runs of these rounds are finished.
    pub fn is_done(&self, rounds: u32, cases: &[&str]) -> bool {
        (1..=rounds).all(|round| cases.iter().all(|name| self.is_finished(name, round)))
    }

    fn is_finished(&self, case: &str, round: u32) -> bool {
        self.outcome.run(case, round).is_some_and(|run| run.finished)
    }

    /// Removes a run, and notes why one of its phases failed, if any.
    pub(crate) fn discard(&mut self, case: &str, round: u32) {
        let Some(run) = self.outcome.run(case, round) else { return };
        let failed = run.phases.iter().find_map(|phase| {
            let why = phase.failed.as_ref()?;
            Some(format!(
                "{case}, repetition {round}, was run again; {} had failed: {why}",
                phase.name
            ))
        });
        self.outcome.runs.retain(|run| !run.is(case, round));
        if let Some(failed) = failed {
            self.note(failed);
        }
    }

    pub(crate) fn finish(&mut self, case: &str, round: u32) -> Result<(), Error> {
        let Some(run) = self.outcome.runs.iter_mut().find(|run| run.is(case, round)) else {
            return Ok(());
        };
        run.finished = run.phases.iter().all(|phase| phase.failed.is_none());
        self.save()?;
        Ok(())
    }

    /// Returns a case in a repetition.
    pub fn case<'b>(&'b mut self, name: &'b str, repetition: u32) -> Case<'b, 'a> {
        Case { bench: self, name, repetition }
    }

    /// Returns the result so far.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Writes the result so far, and returns its path.
    pub fn save(&mut self) -> Result<PathBuf, Error> {
        self.outcome.seconds = clock::seconds() - self.began_s;
        shelf::save(&self.outcome, &(self.view)(&self.outcome), &self.asked.out)
    }

    fn run(&mut self, case: &str, repetition: u32) -> &mut Run {
        let runs = &mut self.outcome.runs;
        let at = runs.iter().position(|run| run.is(case, repetition)).unwrap_or_else(|| {
            let seed = Some(seed(repetition));
            let phases = Vec::new();
            runs.push(Run { case: case.to_owned(), repetition, seed, finished: false, phases });
            runs.len() - 1
        });
        &mut runs[at]
    }
}

/// Returns a round's seed. It is the same for all cases of the round, and on every machine.
fn seed(round: u32) -> u64 {
    u64::from(round)
}

/// A case in a repetition.
pub struct Case<'b, 'a> {
    bench: &'b mut Bench<'a>,
    name: &'b str,
    repetition: u32,
}

impl Case<'_, '_> {
    /// Returns the case's name.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Returns the round.
    pub fn round(&self) -> u32 {
        self.repetition
    }

    /// Returns the round's seed.
    pub fn seed(&self) -> u64 {
        seed(self.repetition)
    }

    /// Returns the result so far.
    pub fn outcome(&self) -> &Outcome {
        &self.bench.outcome
    }

    /// Adds a note on this case for the reader.
    pub fn note(&mut self, note: String) {
        self.bench.note(format!("{}, {}: {note}", self.name, self.repetition));
    }

    /// Runs a phase, and keeps its measures even if the phase fails. Returns `None` for a failed
    /// phase. The case then decides whether to continue.
    pub fn phase<T>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut Measures) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.told_phase(name, |measures, _| body(measures))
    }

    /// Runs a phase that takes long, and reports its progress.
    pub fn told_phase<T>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut Measures, &mut dyn FnMut(&str)) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        stop::check_stop()?;
        let began_s = clock::seconds();
        let mut measures = Measures::default();
        let result = body(&mut measures, self.bench.progress);
        let seconds = clock::seconds() - began_s;
        let failed = result.as_ref().err().map(|error| base::chain(error));
        let phase = Phase { name: name.to_owned(), seconds, failed, measures: measures.0 };
        let Case { bench, name, repetition } = self;
        (bench.progress)(&format!("{name}, {repetition}: {}", text::phase_line(&phase)));
        bench.run(name, *repetition).phases.push(phase);
        bench.save()?;
        Ok(result.ok())
    }

    /// Runs the phase in which a farm starts. `note` adds further measures of the farm.
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

    /// Runs a phase in which a manager starts for a farm's guests, and then calls `then`.
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
