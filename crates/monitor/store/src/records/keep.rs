//! Retention of recordings.

use super::calendar::Period;
use super::rows::RowFile;
use super::scan::Reading;
use super::schema::{Grain, QUARTER_MS};
use crate::{Error, db};
use base::duration::{DAY_MS, MINUTE_MS};
use model::{Interval, Parts};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Maximum number of files in a directory, enough for more than a hundred years of months.
const FILES_MAX: usize = 10_000;

/// Limits on the recordings kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Days of one-minute rows.
    pub minutes_days: u32,
    /// Days of rows of 15 minutes.
    pub quarters_days: u32,
    /// Hours of raw samples.
    pub raw_hours: u32,
    /// Bytes of raw samples.
    pub raw_bytes: u64,
    /// Bytes of all rows. The oldest files are removed first. The current day and month stay.
    pub most_bytes: u64,
}

impl Keep {
    /// Default limits.
    pub const USUAL: Keep = Keep {
        minutes_days: 3,
        quarters_days: 90,
        raw_hours: 24,
        raw_bytes: 256 << 20,
        most_bytes: 1 << 30,
    };
}

/// Returns the periods of the files in a directory, oldest first.
pub fn periods(dir: &Path) -> Result<Vec<Period>, Error> {
    let failed = |source| Error::File { path: dir.into(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)?.take(FILES_MAX) {
        let name = entry.map_err(failed)?.file_name();
        found.extend(name.to_str().and_then(Period::of_file));
    }
    found.sort_by_key(|period| (period.begin_ms(), *period));
    Ok(found)
}

/// Returns the first finished quarter of an hour that has rows of minutes but no row of its own,
/// and the first error. An unreadable file is skipped, so that it does not block the other files.
/// After the first error no further file is waited for, because a reader may have locked all files.
pub fn unfolded(dir: &Path, now_ms: i64) -> (Option<i64>, Result<(), Error>) {
    let days = match periods(dir) {
        Ok(periods) => periods.into_iter().filter(|period| matches!(period, Period::Day(..))),
        Err(error) => return (None, Err(error)),
    };
    let mut first_error = Ok(());
    for day in days {
        let wait = if first_error.is_ok() { db::BUSY } else { Duration::ZERO };
        match unfolded_of(dir, day, now_ms, wait) {
            Ok(None) => {}
            Ok(found) => return (found, first_error),
            Err(error) => first_error = first_error.and(Err(error)),
        }
    }
    (None, first_error)
}

fn unfolded_of(dir: &Path, day: Period, now_ms: i64, wait: Duration) -> Result<Option<i64>, Error> {
    let Some(minutes) = RowFile::read_within(dir, day, wait)? else { return Ok(None) };
    let month = Period::month_of(day.begin_ms());
    let folded = match RowFile::read_within(dir, month, wait)? {
        Some(file) => file.spans(day.begin_ms(), day.end_ms())?,
        None => Vec::new(),
    };
    let quarter = |at_ms: &i64| at_ms.div_euclid(QUARTER_MS) * QUARTER_MS;
    let over = |at_ms: &i64| at_ms + QUARTER_MS <= now_ms;
    let spans = minutes.spans(day.begin_ms(), day.end_ms())?;
    Ok(spans.iter().map(quarter).find(|at_ms| over(at_ms) && !folded.contains(at_ms)))
}

/// Returns the row of a quarter of an hour, summed from its minutes, if the file of these minutes
/// exists.
pub fn quarter(dir: &Path, at_ms: i64) -> Result<Option<Interval>, Error> {
    let opened = RowFile::read_within(dir, Period::day_of(at_ms), db::BUSY)?;
    let Some(day) = opened else { return Ok(None) };
    let mut sum =
        Interval { from_ms: at_ms, length_ms: QUARTER_MS.unsigned_abs(), ..Interval::default() };
    let to_ms = at_ms + QUARTER_MS;
    Reading::new(day, &Parts::ALL.into())?.add(at_ms, to_ms, &mut sum)?;
    Ok(Some(sum))
}

/// Removes at most one file. If `by_age` is set, the file must be too old. Otherwise the oldest
/// file is removed if all files together are too large.
pub fn forget(dir: &Path, keep: &Keep, now_ms: i64, by_age: bool) -> Result<Option<Period>, Error> {
    let periods = periods(dir)?;
    let is_current =
        |period: &Period| (period.begin_ms() - MINUTE_MS..=period.end_ms()).contains(&now_ms);
    let is_old = |period: &&Period| {
        let days = match Grain::of(**period) {
            Grain::Minute => keep.minutes_days,
            Grain::Quarter => keep.quarters_days,
        };
        period.end_ms().saturating_add(i64::from(days) * DAY_MS) <= now_ms
    };
    // A file of another kind stays, even if it has the name of a period.
    let is_ours = |period: &&Period| {
        let opened = RowFile::read_within(dir, **period, db::BUSY);
        !matches!(opened, Err(Error::Foreign { .. } | Error::NoFile { .. }))
    };
    let mut gone = periods.iter().filter(|_| by_age).filter(is_old).find(is_ours);
    if gone.is_none() {
        let size =
            |period: &Period| fs::metadata(dir.join(period.file())).map_or(0, |found| found.len());
        if periods.iter().map(size).sum::<u64>() > keep.most_bytes {
            gone = periods.iter().filter(|period| !is_current(period)).find(is_ours);
        }
    }
    let Some(period) = gone.filter(|period| !is_current(period)).copied() else {
        return Ok(None);
    };
    let path = dir.join(period.file());
    fs::remove_file(&path).map_err(|source| Error::File { path: path.clone(), source })?;
    // SQLite removes these files when the last reader closes the database.
    for ending in ["-wal", "-shm"] {
        let _ = fs::remove_file(dir.join(period.file() + ending));
    }
    Ok(Some(period))
}
