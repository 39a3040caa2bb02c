//! Reading of recordings: all files of a directory as one timeline.

use super::calendar::Period;
use super::keep::periods;
use super::passes;
use super::raw::RawFile;
use super::rows::RowFile;
use super::running::Running;
use super::scan::{Pick, Processes, Reading};
use super::schema::{Grain, QUARTER_MS};
use crate::Error;
use base::duration::MINUTE_MS;
use model::{Gap, Interval, Moment, Parts, PassInput, ProcessField};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Maximum number of steps in one query: almost two weeks of one-minute steps. Users can wait for
/// such a query.
pub const STEPS_MAX: i64 = 20_000;

/// A range of time, divided into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start in milliseconds since 1970.
    pub from_ms: i64,
    /// End, exclusive.
    pub to_ms: i64,
    /// Length of a step.
    pub step_ms: i64,
}

/// Recordings of a directory.
#[derive(Clone, Debug)]
pub struct Records {
    dir: PathBuf,
}

/// Steps of a query, and the files with their records.
#[derive(Debug)]
struct Course {
    /// Start of the first step.
    from_ms: i64,
    /// Time before which every step starts.
    to_ms: i64,
    /// Time at which the last step is cut off.
    end_ms: i64,
    pieces: Vec<Piece>,
    running: Option<Running>,
}

/// Part of the time that is covered by one file.
#[derive(Clone, Copy, Debug)]
struct Piece {
    period: Period,
    from_ms: i64,
    to_ms: i64,
}

impl Records {
    /// Opens the recordings of a directory, which must exist. A directory that contains a directory
    /// `recordings`, such as an import, is not itself a directory of recordings.
    pub fn open(dir: &Path) -> Result<Records, Error> {
        let below = dir.join("recordings");
        if below.is_dir() {
            return Err(Error::Below { path: dir.into(), below });
        }
        periods(dir)?;
        Ok(Records { dir: dir.into() })
    }

    /// Returns the directory of the recordings.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the start of the first minute and the end of the last minute; `None` if nothing is
    /// recorded.
    pub fn extent(&self) -> Result<Option<(i64, i64)>, Error> {
        let mut extent: Option<(i64, i64)> = None;
        let periods = periods(&self.dir)?;
        // The first and the last file with rows of each grain are enough.
        for grain in [Grain::Minute, Grain::Quarter] {
            let of_grain = || periods.iter().filter(|period| Grain::of(**period) == grain);
            let ends = |period: &Period| -> Result<Option<(i64, i64)>, Error> {
                match RowFile::read_only(&self.dir, *period)? {
                    Some(file) => file.extent(),
                    None => Ok(None),
                }
            };
            let forwards = of_grain().map(ends).find_map(Result::transpose).transpose()?;
            let backwards = of_grain().rev().map(ends).find_map(Result::transpose).transpose()?;
            if let (Some((first, _)), Some((_, last))) = (forwards, backwards) {
                let (from, to) = (first, last + grain.length_ms());
                extent = Some(extent.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
            }
        }
        Ok(extent)
    }

    /// Returns the intervals of a time range, step by step. Steps without data have a covered time
    /// of 0. The result starts with the first recorded minute and ends with the last moment, which
    /// may be in the current minute.
    pub fn intervals(
        &self,
        from_ms: i64,
        to_ms: i64,
        step_ms: i64,
    ) -> Result<Vec<Interval>, Error> {
        let mut all = Vec::new();
        self.visit(Span { from_ms, to_ms, step_ms }, Parts::ALL, |interval| {
            all.push(interval);
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// Visits the intervals one after the other, with only the wanted fields of the wanted parts.
    /// Of a guest's more than a hundred fields, a report needs a dozen.
    pub fn visit(
        &self,
        span: Span,
        pick: impl Into<Pick>,
        mut visit: impl FnMut(Interval) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let pick = &pick.into();
        let Some(course) = self.course(span)? else { return Ok(()) };
        let mut open: Option<(Period, Reading)> = None;
        let mut at_ms = course.from_ms;
        while at_ms < course.to_ms {
            let end_ms = at_ms.saturating_add(span.step_ms).min(course.end_ms);
            let mut interval = Interval {
                from_ms: at_ms,
                length_ms: end_ms.abs_diff(at_ms),
                ..Interval::default()
            };
            for piece in &course.pieces {
                let (a, b) = (piece.from_ms.max(at_ms), piece.to_ms.min(end_ms));
                if a >= b {
                    continue;
                }
                if open.as_ref().is_none_or(|(period, _)| *period != piece.period) {
                    open = self.open_piece(piece, pick)?;
                }
                if let Some((_, reading)) = &mut open {
                    reading.add(a, b, &mut interval)?;
                }
            }
            if let Some(now) = &course.running
                && (at_ms..end_ms).contains(&now.begins_ms())
            {
                now.add_to(&mut interval, pick);
            }
            if visit(interval).is_break() {
                break;
            }
            at_ms = end_ms;
        }
        Ok(())
    }

    /// Sums the processes in a span, with the same steps as intervals. A day has a million
    /// one-minute rows of processes, which no caller needs individually.
    pub fn processes(&self, span: Span, fields: &[ProcessField]) -> Result<Processes, Error> {
        let mut sum = Processes::new();
        let Some(course) = self.course(span)? else { return Ok(sum) };
        let pick = Pick { guests: None, tiers: None, processes: Some(fields.to_vec()) };
        let step_of = |at_ms: i64| (at_ms - course.from_ms).div_euclid(span.step_ms);
        for piece in &course.pieces {
            if let Some((_, mut reading)) = self.open_piece(piece, &pick)? {
                reading.add_processes(piece.from_ms, piece.to_ms, step_of, &mut sum)?;
            }
        }
        if let Some(now) = &course.running {
            let mut whole = Interval { processes: sum, ..Interval::default() };
            now.add_to(&mut whole, &pick);
            sum = whole.processes;
        }
        Ok(sum)
    }

    fn open_piece(&self, piece: &Piece, pick: &Pick) -> Result<Option<(Period, Reading)>, Error> {
        let Some(file) = RowFile::read_only(&self.dir, piece.period)? else { return Ok(None) };
        Ok(Some((piece.period, Reading::new(file, pick)?)))
    }

    /// Returns the steps of a query and the files with their records; `None` if nothing is
    /// recorded.
    fn course(&self, span: Span) -> Result<Option<Course>, Error> {
        let step_ms = span.step_ms;
        if step_ms < MINUTE_MS {
            return Err(Error::Span { reason: "a step must be at least a minute" });
        }
        // Samples are read before rows. A minute that ends in between is then found in the rows.
        let mut running = Running::of_dir(&self.dir)?;
        let rows = self.extent()?;
        if let Some(now) = &running
            && self.has_rows(now)?
        {
            running = None;
        }
        let mut end_ms = span.to_ms;
        let extent = match (rows, &running) {
            (Some((first, last)), Some(now)) if last > now.over_ms() => {
                Some((first.min(now.begins_ms()), last))
            }
            (rows, Some(now)) => {
                end_ms = end_ms.min(now.to_ms);
                let first = rows.map_or(now.begins_ms(), |(first, _)| first.min(now.begins_ms()));
                Some((first, now.to_ms))
            }
            (rows, None) => rows,
        };
        let Some((first_ms, last_ms)) = extent else { return Ok(None) };
        // Steps are counted from the start of the query. No record is older than 1970.
        let begin_ms = span.from_ms.max(0);
        let skipped = first_ms.saturating_sub(begin_ms).max(0) / step_ms;
        let from_ms = begin_ms.saturating_add(skipped * step_ms);
        let to_ms = span.to_ms.min(last_ms);
        if to_ms.saturating_sub(from_ms) / step_ms > STEPS_MAX {
            return Err(Error::Span {
                reason: "it has more than 20,000 steps: choose longer steps",
            });
        }
        let mut pieces = self.pieces(from_ms, to_ms, step_ms)?;
        if let Some(now) = &running
            && !cut_out(&mut pieces, now)
        {
            running = None;
        }
        Ok(Some(Course { from_ms, to_ms, end_ms, pieces, running }))
    }

    /// Returns true if the rows cover at least as much of a minute as its samples.
    fn has_rows(&self, now: &Running) -> Result<bool, Error> {
        let Some(file) = RowFile::read_only(&self.dir, Period::day_of(now.begins_ms()))? else {
            return Ok(false);
        };
        Ok(file.covered(now.begins_ms())?.is_some_and(|covered| covered >= now.covered_ms()))
    }

    /// Returns the file that covers each part of a time range. For steps of whole quarters of an
    /// hour, the rows of quarters give the same result with less reading.
    fn pieces(&self, from_ms: i64, to_ms: i64, step_ms: i64) -> Result<Vec<Piece>, Error> {
        let is_coarse = step_ms % QUARTER_MS == 0 && from_ms.rem_euclid(QUARTER_MS) == 0;
        let periods = periods(&self.dir)?;
        let mut pieces = Vec::new();
        let mut at_ms = from_ms;
        while at_ms < to_ms {
            let (day, month) = (Period::day_of(at_ms), Period::month_of(at_ms));
            let end_ms = day.end_ms().min(to_ms);
            let has_minutes = periods.contains(&day);
            if !periods.contains(&month) || (has_minutes && !is_coarse) {
                if has_minutes {
                    pieces.push(Piece { period: day, from_ms: at_ms, to_ms: end_ms });
                }
            } else {
                let folded = match RowFile::read_only(&self.dir, month)? {
                    Some(file) => file.spans(at_ms, end_ms)?,
                    None => Vec::new(),
                };
                let mut next_ms = at_ms;
                for quarter in folded {
                    if has_minutes && next_ms < quarter {
                        pieces.push(Piece { period: day, from_ms: next_ms, to_ms: quarter });
                    }
                    next_ms = quarter + QUARTER_MS;
                    pieces.push(Piece { period: month, from_ms: quarter, to_ms: next_ms });
                }
                if has_minutes && next_ms < end_ms {
                    pieces.push(Piece { period: day, from_ms: next_ms, to_ms: end_ms });
                }
            }
            at_ms = end_ms;
        }
        // Adjacent parts of one file become one piece.
        pieces.dedup_by(|later, earlier| {
            let is_next = later.period == earlier.period && later.from_ms == earlier.to_ms;
            if is_next {
                earlier.to_ms = later.to_ms;
            }
            is_next
        });
        Ok(pieces)
    }

    /// Returns the gaps that overlap a time, in their order.
    pub fn gaps(&self, from_ms: i64, to_ms: i64) -> Result<Vec<Gap>, Error> {
        let mut gaps = Vec::new();
        for period in periods(&self.dir)? {
            // A gap is stored in the month of its start, and may be of any length.
            if matches!(period, Period::Month(..))
                && period.begin_ms() < to_ms
                && let Some(file) = RowFile::read_only(&self.dir, period)?
            {
                gaps.extend(file.gaps(from_ms, to_ms)?);
            }
        }
        gaps.sort_by(|a, b| (a.from_ms, a.to_ms, &a.reason).cmp(&(b.from_ms, b.to_ms, &b.reason)));
        gaps.dedup();
        Ok(gaps)
    }

    /// Visits the raw samples in `from_ms..to_ms`, in their order, until the visitor breaks off.
    pub fn raw(
        &self,
        from_ms: i64,
        to_ms: i64,
        mut visit: impl FnMut(Moment) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        match RawFile::read_only(&self.dir)? {
            Some(file) => file.visit(from_ms, to_ms, &mut visit),
            None => Ok(()),
        }
    }

    /// Visits the policy's inputs in each pass in `from_ms..to_ms`, in their order, until the
    /// visitor breaks off. The current minute is not included.
    pub fn passes(
        &self,
        from_ms: i64,
        to_ms: i64,
        visit: impl FnMut(PassInput) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        passes::visit(&self.dir, from_ms, to_ms, visit)
    }
}

/// Removes the current minute from the rows to be read. Returns false if the minute is a part of a
/// longer row.
fn cut_out(pieces: &mut Vec<Piece>, now: &Running) -> bool {
    let has_it = |piece: &Piece| (piece.from_ms..piece.to_ms).contains(&now.begins_ms());
    let Some(place) = pieces.iter().position(has_it) else { return true };
    let whole = pieces[place];
    if matches!(whole.period, Period::Month(..)) {
        return false;
    }
    let parts = [
        Piece { to_ms: now.begins_ms(), ..whole },
        Piece { from_ms: now.over_ms().min(whole.to_ms), ..whole },
    ];
    pieces.splice(place..=place, parts.into_iter().filter(|part| part.from_ms < part.to_ms));
    true
}
