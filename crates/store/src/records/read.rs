//! Recordings read: all files of a directory as one line of time.

use super::calendar::Period;
use super::folder::Gap;
use super::keep::periods;
use super::raw::RawFile;
pub use super::rows::Parts;
use super::rows::RowFile;
use super::schema::{Grain, MINUTE_MS, QUARTER_MS};
use crate::Error;
use counters::series::{GuestField, Interval, Moment, ProcessField, ProcessName, TierField, Who};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Steps that one question may have: more than a week of minutes, and less than fills a
/// terminal's patience.
pub const STEPS_MAX: i64 = 20_000;

/// A time in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it begins, in milliseconds since 1970.
    pub from_ms: i64,
    /// When it is over.
    pub to_ms: i64,
    /// How long a step is.
    pub step_ms: i64,
}

/// The recordings of a directory.
#[derive(Clone, Debug)]
pub struct Records {
    dir: PathBuf,
}

/// Names of a file, read when they are first needed.
#[derive(Debug, Default)]
pub struct Names {
    guests: Option<HashMap<i64, Who>>,
    tiers: Option<HashMap<i64, String>>,
    processes: Option<HashMap<i64, (i64, ProcessName)>>,
}

/// A part of the time that one file tells of.
#[derive(Clone, Copy, Debug)]
struct Piece {
    period: Period,
    from_ms: i64,
    to_ms: i64,
}

impl Records {
    /// The recordings of a directory, which must be there.
    pub fn open(dir: &Path) -> Result<Records, Error> {
        periods(dir)?;
        Ok(Records { dir: dir.into() })
    }

    /// Their directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// When the first minute begins and the last one ends; `None` where nothing is recorded.
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

    /// What happened from one time up to another, step by step. Steps of which nothing is known
    /// are there and cover nothing; what lies before the first minute and after the last one is
    /// left out.
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

    /// The same, one after the other and only the parts that are wanted: a day of processes by
    /// the minute is a million rows, which nobody needs at once.
    pub fn visit(
        &self,
        span: Span,
        parts: Parts,
        mut visit: impl FnMut(Interval) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let step_ms = span.step_ms;
        if step_ms < MINUTE_MS {
            return Err(Error::Span { reason: "a step is a minute at least" });
        }
        let Some((first_ms, last_ms)) = self.extent()? else { return Ok(()) };
        // Whole steps, counted from where the question begins; nothing is older than 1970.
        let begin_ms = span.from_ms.max(0);
        let skipped = first_ms.saturating_sub(begin_ms).max(0) / step_ms;
        let from_ms = begin_ms.saturating_add(skipped * step_ms);
        let to_ms = span.to_ms.min(last_ms);
        if to_ms.saturating_sub(from_ms) / step_ms > STEPS_MAX {
            return Err(Error::Span { reason: "it has more than 20,000 steps: make them longer" });
        }
        let pieces = self.pieces(from_ms, to_ms, step_ms)?;
        let mut open: Option<(Period, RowFile, Names)> = None;
        let mut at_ms = from_ms;
        while at_ms < to_ms {
            let end_ms = at_ms.saturating_add(step_ms).min(span.to_ms);
            let mut interval = Interval {
                from_ms: at_ms,
                length_ms: end_ms.abs_diff(at_ms),
                ..Interval::default()
            };
            for piece in &pieces {
                let (a, b) = (piece.from_ms.max(at_ms), piece.to_ms.min(end_ms));
                if a >= b {
                    continue;
                }
                if open.as_ref().is_none_or(|(period, ..)| *period != piece.period) {
                    let opened = RowFile::read_only(&self.dir, piece.period)?;
                    open = opened.map(|file| (piece.period, file, Names::default()));
                }
                if let Some((_, file, names)) = &mut open {
                    add(file, names, a, b, parts, &mut interval)?;
                }
            }
            if visit(interval).is_break() {
                break;
            }
            at_ms = end_ms;
        }
        Ok(())
    }

    /// Which file tells of which time. Where steps are made of whole quarters of an hour, rows
    /// of quarters are as good as minutes, and there are fewer of them.
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
        // Neighbours of one file are one piece.
        pieces.dedup_by(|later, earlier| {
            let is_next = later.period == earlier.period && later.from_ms == earlier.to_ms;
            if is_next {
                earlier.to_ms = later.to_ms;
            }
            is_next
        });
        Ok(pieces)
    }

    /// The gaps that touch a time, in their order.
    pub fn gaps(&self, from_ms: i64, to_ms: i64) -> Result<Vec<Gap>, Error> {
        let mut gaps = Vec::new();
        for period in periods(&self.dir)? {
            // A gap is in the month where it begins, and may be as long as it likes.
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

    /// The raw samples from one time up to before another, in their order, until the visitor
    /// breaks off.
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
}

/// Adds the rows of a file from one time up to before another to an interval.
pub fn add(
    file: &RowFile,
    names: &mut Names,
    from_ms: i64,
    to_ms: i64,
    parts: Parts,
    sum: &mut Interval,
) -> Result<(), Error> {
    let mut covered = HashMap::new();
    file.add_host(from_ms, to_ms, &mut sum.host, &mut covered)?;
    if parts.guests {
        for (key, over) in file.add::<GuestField>(from_ms, to_ms, &covered)? {
            if let Some(who) = named(&mut names.guests, || file.guests(), key)? {
                sum.guests.entry(who.clone()).or_default().add(&over);
            }
        }
    }
    if parts.tiers {
        for (key, over) in file.add::<TierField>(from_ms, to_ms, &covered)? {
            if let Some(name) = named(&mut names.tiers, || file.tiers(), key)? {
                sum.tiers.entry(name.clone()).or_default().add(&over);
            }
        }
    }
    if parts.processes {
        for (key, over) in file.add::<ProcessField>(from_ms, to_ms, &covered)? {
            let found = named(&mut names.processes, || file.processes(), key)?;
            let Some((guest, name)) = found else { continue };
            let Some(who) = named(&mut names.guests, || file.guests(), *guest)? else { continue };
            let processes = match sum.processes.get_mut(who) {
                Some(processes) => processes,
                None => sum.processes.entry(who.clone()).or_default(),
            };
            processes.entry(name.clone()).or_default().add(&over);
        }
    }
    Ok(())
}

/// A name by its key; names are read once more when there is a new one.
fn named<T>(
    names: &mut Option<HashMap<i64, T>>,
    read: impl Fn() -> Result<HashMap<i64, T>, Error>,
    key: i64,
) -> Result<Option<&T>, Error> {
    if names.as_ref().is_none_or(|names| !names.contains_key(&key)) {
        *names = Some(read()?);
    }
    Ok(names.as_ref().and_then(|names| names.get(&key)))
}
