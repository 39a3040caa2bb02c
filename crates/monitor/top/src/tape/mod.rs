//! Playback of a recording on the same screens.
//!
//! ```text
//!   recordings ─► a minute or more: rows ─┐
//!              ─► less: raw samples ──────┴─► Interval ─► guests as they were ─► Model ─► screens
//!   journal ─► decisions up to the place ────────────────────────────────────────┘
//! ```
//!
//! A step is one interval on the screen. If only rows of quarter hours remain, a step is at least a
//! quarter of an hour.

mod rows;
mod seconds;
#[cfg(test)]
mod tests;

use super::model::{HISTORY, Model, Replay};
use super::past;
use super::sample::Sample;
use crate::Error;
use base::duration::{MINUTE_MS, SECOND_MS};
use manager::control::SizeAction;
use model::clause::Clause;
use model::{Interval, Parts};
use rows::Ids;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use store::{Journal, Period, Range, Records, Span};
use why::when::{self, Now};

const QUARTER_MS: i64 = 15 * MINUTE_MS;
/// Parts of a recording that are read for the graphs: first of the host, then of the guests.
const HOST_ONLY: Parts = Parts { guests: false, tiers: false, processes: false };
const WITH_GUESTS: Parts = Parts { guests: true, ..HOST_ONLY };
/// Maximum time that the guests' graphs cover. Each step reads this time again.
const GUESTS_PAST_MS: i64 = 3 * 60 * MINUTE_MS;
/// Number of steps for which decisions are read.
const DECIDED_STEPS: i64 = 60;

/// Recording to show, and start time in it.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Directory of recordings, or one of its files.
    pub path: &'a Path,
    /// Start time. If it is missing, the last interval is shown.
    pub at: Option<&'a str>,
    /// Length of a step, in seconds.
    pub step_s: u32,
    /// Path of the journal, if it is not next to the recordings.
    pub journal: Option<&'a Path>,
}

/// A recording with the current position.
#[derive(Debug)]
pub(super) struct Tape {
    records: Records,
    journal: Option<Journal>,
    /// Start and end of the recording. The end is exclusive.
    from_ms: i64,
    to_ms: i64,
    step_ms: i64,
    /// Start of the displayed interval.
    place_ms: i64,
    /// Notice that the last step was shortened at an end of the recording.
    at_end: Option<&'static str>,
    ids: Ids,
}

impl Tape {
    /// Opens a recording at a time. The caller reports errors before it sets up the terminal.
    pub(super) fn open(wanted: &Wanted<'_>, now: &Now) -> Result<Tape, Error> {
        let step_ms = step(wanted.step_s)?;
        let (dir, within) = place(wanted.path)?;
        let records = Records::open(&dir)?;
        let Some((first_ms, last_ms)) = records.extent()? else {
            return Err(Error::Nothing(dir));
        };
        let (from_ms, to_ms) = within.unwrap_or((first_ms, last_ms));
        let (from_ms, to_ms) = (from_ms.max(first_ms), to_ms.min(last_ms));
        if from_ms >= to_ms {
            return Err(Error::Empty(wanted.path.into()));
        }
        let journal = match wanted.journal {
            Some(path) => Some(Journal::read_only(path)?),
            None => beside(&dir).iter().find_map(|path| past::open(path)),
        };
        let mut tape = Tape {
            records,
            journal,
            from_ms,
            to_ms,
            step_ms,
            place_ms: 0,
            at_end: None,
            ids: Ids::default(),
        };
        let at_ms = match wanted.at {
            Some(text) => when::begin(text, now)?,
            None => to_ms - 1,
        };
        if !(from_ms..to_ms).contains(&at_ms) {
            let show = |ms| when::show(ms, now);
            return Err(Error::Outside {
                at: show(at_ms),
                path: wanted.path.into(),
                from: show(from_ms),
                to: show(to_ms),
            });
        }
        tape.place_ms = tape.begin(at_ms);
        Ok(tape)
    }

    /// Moves by a number of steps, forward or back, within the recording.
    pub(super) fn travel(&mut self, steps: i64) {
        let by_ms = steps.saturating_mul(self.length_ms(self.place_ms));
        let wanted_ms = self.place_ms.saturating_add(by_ms);
        let to_ms = wanted_ms.clamp(self.from_ms, self.to_ms - 1);
        self.at_end = match () {
            () if wanted_ms >= self.to_ms => Some("the recording ends here"),
            () if wanted_ms < self.begin(self.from_ms) => Some("the recording begins here"),
            () => None,
        };
        self.place_ms = self.begin(to_ms);
    }

    /// Returns the length of the interval at a time.
    fn length_ms(&self, at_ms: i64) -> i64 {
        let day = self.records.dir().join(Period::day_of(at_ms).file());
        if self.step_ms < MINUTE_MS || day.exists() {
            return self.step_ms;
        }
        self.step_ms.max(QUARTER_MS)
    }

    /// Returns the start of the interval that contains a time.
    fn begin(&self, at_ms: i64) -> i64 {
        at_ms - at_ms.rem_euclid(self.length_ms(at_ms))
    }

    /// Returns the data of the screens at the current position.
    pub(super) fn model(&mut self) -> Result<Model, Error> {
        let length_ms = self.length_ms(self.place_ms);
        let from_ms = self.place_ms;
        let to_ms = from_ms.saturating_add(length_ms);
        let before_ms = from_ms - (HISTORY as i64 - 1) * length_ms;
        let (interval, history) = match length_ms {
            ..MINUTE_MS => seconds::read(&self.records, before_ms, from_ms, length_ms)?,
            _ => self.minutes(before_ms, from_ms, length_ms)?,
        };
        let mut ps = rows::ps(&interval, &mut self.ids);
        let mut model = Model::default();
        if let Some(journal) = &self.journal {
            let before_ms = from_ms - (DECIDED_STEPS - 1) * length_ms;
            let range = Range { from_ms: before_ms, to_ms: to_ms - 1 };
            let ids = &mut self.ids;
            model.decisions = past::decisions(journal, range, |guest| Some(ids.of_guest(guest)))?;
        }
        for row in &mut ps.guests {
            if let Some(last) = model.decisions.iter().find(|one| one.id == row.id) {
                row.action = SizeAction::from_name(&last.action);
                row.clause = Clause::of_name(&last.clause);
                row.reason = Some(last.reason.clone());
            }
        }
        for one in history {
            let ps = rows::ps(&one, &mut self.ids);
            model.remember(&Sample::new(one, ps, None));
        }
        let is_known = interval.host.covered_ms > 0;
        let why = if is_known { None } else { Some(self.why_nothing(from_ms, to_ms)?) };
        model.sample = Some(Sample::new(interval, ps, None));
        model.replay = Some(Replay {
            from_ms,
            length_ms,
            nothing: why,
            at_end: self.at_end,
            has_journal: self.journal.is_some(),
        });
        Ok(model)
    }

    /// Reads the interval at a position, and the intervals before it, from the rows of minutes.
    fn minutes(
        &self,
        before_ms: i64,
        from_ms: i64,
        length_ms: i64,
    ) -> Result<(Interval, Vec<Interval>), Error> {
        let to_ms = from_ms.saturating_add(length_ms);
        let mut history = Vec::new();
        // Before `guests_ms`, only the host's past is read. The guests' past begins at `guests_ms`,
        // which is the start of a step.
        let steps = (GUESTS_PAST_MS / length_ms).max(1) - 1;
        let guests_ms = before_ms.max(from_ms - steps * length_ms);
        for (from_ms, to_ms, parts) in
            [(before_ms, guests_ms, HOST_ONLY), (guests_ms, to_ms, WITH_GUESTS)]
        {
            if from_ms < to_ms {
                let span = Span { from_ms, to_ms, step_ms: length_ms };
                self.records.visit(span, parts, |interval| {
                    history.push(interval);
                    ControlFlow::Continue(())
                })?;
            }
        }
        let mut shown =
            Interval { from_ms, length_ms: length_ms.unsigned_abs(), ..Interval::default() };
        let span = Span { from_ms, to_ms, step_ms: length_ms };
        self.records.visit(span, Parts::ALL, |interval| {
            // The last interval of the recording may be shorter than a step, but is shown as a
            // whole step.
            shown = Interval { from_ms, length_ms: length_ms.unsigned_abs(), ..interval };
            ControlFlow::Break(())
        })?;
        Ok((shown, history))
    }

    fn why_nothing(&self, from_ms: i64, to_ms: i64) -> Result<String, Error> {
        if self.step_ms < MINUTE_MS {
            return Ok("There are no samples of single seconds at this time, because old samples \
                       are removed: use --step 60 to see minutes"
                .to_owned());
        }
        let gap = self.records.gaps(from_ms, to_ms)?.into_iter().next();
        Ok(match gap.as_ref().map(|gap| gap.reason.as_str()) {
            Some("restart") => "Nothing was recorded at this time: no manager ran".to_owned(),
            Some("late") => "Nothing was recorded at this time: the host was too busy".to_owned(),
            Some(reason) => format!("Nothing was recorded at this time: {reason}"),
            None => "Nothing was recorded at this time".to_owned(),
        })
    }
}

fn step(seconds: u32) -> Result<i64, Error> {
    match i64::from(seconds) * SECOND_MS {
        ms @ SECOND_MS.. if ms < MINUTE_MS || ms % MINUTE_MS == 0 => Ok(ms),
        _ => Err(Error::Step),
    }
}

/// Returns the directory of a recording. If the path names a file, its time range is returned too.
fn place(path: &Path) -> Result<(PathBuf, Option<(i64, i64)>), Error> {
    if path.is_dir() {
        return Ok((path.into(), None));
    }
    if !path.exists() {
        return Err(Error::Missing(path.into()));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match (name, Period::of_file(name)) {
        ("raw.db", _) => Ok((dir.into(), None)),
        (_, Some(period)) => Ok((dir.into(), Some((period.begin_ms(), period.end_ms())))),
        _ => Err(Error::NoRecording(path.into())),
    }
}

/// Returns the possible paths of the journal. The manager stores the journal next to the directory
/// of recordings. A user may copy the journal and the recordings into one directory.
fn beside(dir: &Path) -> [PathBuf; 2] {
    [dir.join("../journal.db"), dir.join("journal.db")]
}
