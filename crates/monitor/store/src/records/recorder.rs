//! Recorder, which stores one moment per second.
//!
//! ```text
//!   moment ─► Folder ──► finished minute ─────┐
//!      │                                      ├─► waiting ─► rows of the day, block in raw.db
//!      └────► chain ───► block of the minute ─┘
//!               └──────► each second's bytes ──────────────► raw.db
//! ```
//!
//! Each second is committed before the next, so a killed process loses at most one second. `raw.db`
//! contains the current minute and the state before the minute, so the next recorder can continue
//! the minute. If a write fails, a bounded number of minutes wait in memory. The failure is
//! reported once, and the minutes are written when possible.

use super::calendar::Period;
use super::damage;
use super::keep::{self, Keep};
use super::pack::{Encoder, block};
use super::raw::{self, Block, Left, RawFile, Seconds};
use super::rows::RowFile;
use super::schema::{Grain, QUARTER_MS};
use crate::backoff::Backoff;
use crate::held::Failures;
use crate::news::News;
use crate::{Error, db};
use base::duration::MINUTE_MS;
use model::{Folder, Gap, Interval, Moment, minute_of};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Maximum number of minutes waiting to be written. Thirty minutes of a thousand guests take about
/// 100 MB.
const WAITING_MAX: usize = 30;
/// Maximum number of gaps waiting to be written.
const GAPS_MAX: usize = 1_000;
/// Maximum number of moments kept of one minute. Normally there is one moment per second.
const MOMENTS_MAX: usize = 240;
/// Number of files that a moment is written to. At most this many files are set aside per moment.
const FILES_MAX: usize = 3;
/// Minutes between two removals of old files. If the clock is far ahead for an hour, only one file
/// is lost.
const REST_MINUTES: u32 = 60;
/// Reason for a gap between two processes.
const RESTART: &str = "restart";
/// Reason for a gap within one process.
const LATE: &str = "late";
/// Reason for a gap of minutes that could not be written for too long.
const LOST: &str = "lost";

/// Recorder of moments in a directory.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    keep: Keep,
    folder: Folder,
    /// True once the recorder has searched for the unfinished minute of the previous process.
    has_begun: bool,
    /// True once a moment has been recorded.
    has_recorded: bool,
    running: Running,
    waiting: VecDeque<Done>,
    gaps: Vec<Gap>,
    files: Files,
    failures: Failures,
    /// Failures of the upkeep (`look_after`).
    untidy: Backoff,
    /// Minutes until the next removal of an old file.
    rest: u32,
    /// Time up to which every quarter of an hour has its row.
    folded_ms: i64,
    lost: u64,
}

/// Samples of the current minute.
#[derive(Debug, Default)]
struct Running {
    minute_ms: i64,
    encoder: Encoder,
    /// State before the minute.
    known: Vec<Vec<u8>>,
    moments: Vec<Vec<u8>>,
    from_ms: i64,
    to_ms: i64,
    /// Number of `moments` that the file contains. `None` if the file contains another minute.
    written: Option<usize>,
}

#[derive(Debug, Default)]
struct Done {
    rows: Option<Interval>,
    block: Option<Block>,
    has_rows_written: bool,
}

/// A failure of the upkeep.
struct Untidy {
    /// File that could not be written; `None` if reading failed.
    written: Option<PathBuf>,
    error: Error,
}

impl From<Error> for Untidy {
    fn from(error: Error) -> Untidy {
        Untidy { written: None, error }
    }
}

#[derive(Debug, Default)]
struct Files {
    day: Option<(Period, RowFile)>,
    month: Option<(Period, RowFile)>,
    raw: Option<RawFile>,
    /// File that was opened or written last. If a write fails, the failure belongs to this file.
    at: PathBuf,
}

impl Recorder {
    /// Creates a recorder. The first moment opens or creates the files.
    pub fn new(dir: &Path, keep: Keep) -> Recorder {
        Recorder {
            dir: dir.into(),
            keep,
            folder: Folder::default(),
            has_begun: false,
            has_recorded: false,
            running: Running::default(),
            waiting: VecDeque::new(),
            gaps: Vec::new(),
            files: Files::default(),
            failures: Failures::default(),
            untidy: Backoff::default(),
            rest: 0,
            folded_ms: i64::MIN,
            lost: 0,
        }
    }

    /// Sets the normal distance between moments from now on.
    pub fn space(&mut self, spacing_ms: i64) {
        self.folder.space(spacing_ms);
    }

    /// Returns the number of minutes lost because they could not be written for too long.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of minutes waiting to be written.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the current minute as far as it is recorded, for live queries.
    pub fn running(&self) -> Option<&Interval> {
        self.folder.running()
    }

    /// Records a moment, which must be later than the moment before. On return the moment is on
    /// disk, unless there is news. A guest without changes may be missing in some moments, but must
    /// be in one moment of each minute.
    pub fn record(&mut self, moment: &Moment) -> Option<News> {
        let mut aside = None;
        let (waits, copied) = self.failures.turn();
        let begun = match waits {
            true => Ok(()),
            false => self.mending(moment.at_ms, &mut aside, Recorder::begin),
        };
        let is_over = self.take(moment);
        self.has_recorded = true;
        if waits || copied.is_some() {
            return copied.or(aside);
        }
        let written = begun.and_then(|()| self.mending(moment.at_ms, &mut aside, Recorder::write));
        match written {
            Ok(()) => {
                if self.failures.worked() {
                    return Some(News::Recovered { lost: std::mem::take(&mut self.lost) });
                }
                if aside.is_some() {
                    return aside;
                }
                // Recorded data is safe even if old files cannot be removed.
                let tidied = if is_over { self.look_after(moment.at_ms) } else { return None };
                let Err(Untidy { written, error }) = tidied else {
                    self.untidy.worked();
                    self.let_go();
                    return None;
                };
                // The cached names may include names that a failed transaction did not write.
                self.close_files();
                let is_news = self.untidy.failed();
                if let Some(path) = written.filter(|_| self.untidy.is_lasting()) {
                    self.failures.copy_if_locked(&path, &error);
                }
                is_news.then_some(News::Failed(error))
            }
            Err(error) => {
                // The file may have been moved or replaced, so the next attempt opens it again.
                let path = self.close_files();
                self.failures.failed(&path, error)
            }
        }
    }

    /// Closes all files. Returns the path of the file that was used last.
    fn close_files(&mut self) -> PathBuf {
        self.running.written = None;
        std::mem::take(&mut self.files).at
    }

    /// Starts to copy a file if another process blocks its log.
    fn let_go(&mut self) {
        if let Some(held) = self.file_with_held_log() {
            self.close_files();
            self.failures.copy(&held);
        }
    }

    fn file_with_held_log(&self) -> Option<PathBuf> {
        let rows = [&self.files.day, &self.files.month].into_iter().flatten();
        let names = rows.map(|(period, _)| period.file()).chain([raw::FILE.to_owned()]);
        let mut paths = names.map(|name| self.dir.join(name));
        paths.find(|path| self.failures.is_log_held(path))
    }

    /// Runs an operation on the files. A damaged file is set aside, and the operation is repeated.
    fn mending(
        &mut self,
        now_ms: i64,
        aside: &mut Option<News>,
        action: fn(&mut Recorder) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for _ in 0..FILES_MAX {
            let Err(error) = action(self) else { return Ok(()) };
            let path = self.files.at.clone();
            if !damage::is_damaged(&path, &error) {
                return Err(error);
            }
            // This process must not have the file open when it is moved.
            self.close_files();
            let name = damage::set_aside(&path, now_ms)?;
            *aside = Some(News::SetAside { path, aside: name });
        }
        action(self)
    }

    /// Returns true while a locked file is copied. Samples wait until the copy is over.
    pub fn is_copying(&self) -> bool {
        self.failures.is_copying()
    }

    /// Writes the current minute as far as it is recorded, so that no data is lost. A recorder that
    /// starts soon afterwards continues the minute.
    pub fn close(mut self) -> Result<(), Error> {
        // A failed copy leaves the file unchanged, and the write below reports the cause.
        let _ = self.failures.finish();
        let rows = self.folder.running().cloned();
        self.waiting.push_back(Done { rows, ..Done::default() });
        self.write()
    }

    /// Continues where the previous process ended.
    fn begin(&mut self) -> Result<(), Error> {
        if self.has_begun {
            return Ok(());
        }
        std::fs::create_dir_all(&self.dir)
            .map_err(|source| Error::File { path: self.dir.clone(), source })?;
        self.files.at = self.dir.join(raw::FILE);
        let (mut known, mut moments, mut block_to_ms) = (Vec::new(), Vec::new(), None);
        if let Some(file) = RawFile::read_within(&self.dir, db::BUSY)? {
            file.left(|left| {
                match left {
                    Left::Known(moment) => known.push(moment),
                    Left::Moment(moment) => moments.push(moment),
                }
                ControlFlow::Continue(())
            })?;
            block_to_ms = file.block_to_ms()?;
        }
        self.has_begun = true;
        // Moments received before the directory could be opened are newer than its contents.
        if self.has_recorded {
            return Ok(());
        }
        known.iter().for_each(|moment| self.folder.know(moment));
        for moment in &moments {
            self.take(moment);
        }
        // If only the end of the previous recording is known, the gap starts at this end.
        if let (None, Some(at_ms)) = (self.folder.last_ms(), block_to_ms) {
            self.folder.know(&Moment { at_ms, ..Moment::default() });
        }
        Ok(())
    }

    /// Adds a moment. Returns true if a minute is finished.
    fn take(&mut self, moment: &Moment) -> bool {
        let minute_ms = minute_of(moment.at_ms);
        let is_first = self.folder.last_ms().is_none();
        let turns = is_first || self.running.minute_ms != minute_ms;
        let known = if turns { self.folder.known() } else { Vec::new() };
        let fed = self.folder.feed(moment);
        if fed.is_ignored {
            return false;
        }
        if let Some((from_ms, to_ms)) = fed.gap {
            let reason = if self.has_recorded { LATE } else { RESTART };
            self.note(Gap { from_ms, to_ms, reason: reason.into() });
        }
        if turns {
            let running = std::mem::take(&mut self.running);
            self.queue(Done { rows: fed.finished, block: running.block(), ..Done::default() });
            let mut encoder = Encoder::default();
            self.running.known = known.iter().map(|moment| encoder.encode(moment)).collect();
            self.running.minute_ms = minute_ms;
            self.running.from_ms = moment.at_ms;
        } else if let Some(rows) = fed.finished {
            self.queue(Done { rows: Some(rows), ..Done::default() });
        }
        if self.running.moments.len() < MOMENTS_MAX {
            self.running.moments.push(self.running.encoder.encode(moment));
            self.running.to_ms = moment.at_ms;
        }
        turns
    }

    fn note(&mut self, gap: Gap) {
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(gap);
        }
    }

    fn queue(&mut self, done: Done) {
        if done.rows.is_none() && done.block.is_none() {
            return;
        }
        if self.waiting.len() >= WAITING_MAX
            && let Some(Done { rows: Some(rows), .. }) = self.waiting.pop_front()
        {
            self.lost += 1;
            let to_ms = rows.from_ms + MINUTE_MS;
            self.note(Gap { from_ms: rows.from_ms, to_ms, reason: LOST.into() });
        }
        self.waiting.push_back(done);
    }

    fn write(&mut self) -> Result<(), Error> {
        for done in self.waiting.iter_mut().filter(|done| !done.has_rows_written) {
            if let Some(rows) = &done.rows {
                self.files.rows(&self.dir, Grain::Minute, rows.from_ms)?.write(rows)?;
            }
            done.has_rows_written = true;
        }
        let gaps = std::mem::take(&mut self.gaps);
        if let Err(error) = self.files.note(&self.dir, &gaps) {
            self.gaps = gaps;
            return Err(error);
        }
        self.files.at = self.dir.join(raw::FILE);
        let raw = match self.files.raw.take() {
            Some(file) => file,
            None => RawFile::open(&self.dir)?,
        };
        let raw = self.files.raw.insert(raw);
        let running = &mut self.running;
        let moments = &running.moments;
        let seconds = match running.written {
            Some(written) => Seconds::More(&moments[written.min(moments.len())..]),
            None => Seconds::FromScratch { known: &running.known, moments },
        };
        let blocks = self.waiting.iter().filter_map(|done| done.block.as_ref());
        raw.write(blocks, seconds)?;
        running.written = Some(moments.len());
        self.waiting.clear();
        Ok(())
    }

    /// Does a bounded part of the upkeep each minute: removes old samples, sums a quarter of an
    /// hour, and removes an old file. If one task fails, the other tasks still run.
    fn look_after(&mut self, now_ms: i64) -> Result<(), Untidy> {
        let raw = self.dir.join(raw::FILE);
        let pruned = self.prune(now_ms).map_err(|error| Untidy { written: Some(raw), error });
        let folded = self.fold(now_ms);
        let forgotten = self.forget(now_ms).map_err(Untidy::from);
        pruned.and(folded).and(forgotten)
    }

    fn prune(&mut self, now_ms: i64) -> Result<(), Error> {
        let Some(raw) = &self.files.raw else { return Ok(()) };
        let hours_ms = i64::from(self.keep.raw_hours) * 60 * MINUTE_MS;
        raw.prune(now_ms.saturating_sub(hours_ms), self.keep.raw_bytes)
    }

    fn fold(&mut self, now_ms: i64) -> Result<(), Untidy> {
        let quarter_ms = now_ms.div_euclid(QUARTER_MS) * QUARTER_MS;
        if self.folded_ms == quarter_ms {
            return Ok(());
        }
        let (found, others) = keep::unfolded(&self.dir, now_ms);
        match found {
            Some(at_ms) => {
                if let Some(sum) = keep::quarter(&self.dir, at_ms)? {
                    let month = self.files.rows(&self.dir, Grain::Quarter, at_ms);
                    let written = month.and_then(|month| month.write(&sum));
                    written.map_err(|error| {
                        let path = self.dir.join(Grain::Quarter.period(at_ms).file());
                        Untidy { written: Some(path), error }
                    })?;
                }
            }
            None if others.is_ok() => self.folded_ms = quarter_ms,
            None => {}
        }
        others.map_err(Untidy::from)
    }

    fn forget(&mut self, now_ms: i64) -> Result<(), Error> {
        let has_rested = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        if let Some(gone) = keep::forget(&self.dir, &self.keep, now_ms, has_rested)? {
            self.rest = REST_MINUTES;
            for open in [&mut self.files.day, &mut self.files.month] {
                if open.as_ref().is_some_and(|(period, _)| *period == gone) {
                    *open = None;
                }
            }
        }
        Ok(())
    }
}

impl Running {
    fn block(&self) -> Option<Block> {
        (!self.moments.is_empty()).then(|| Block {
            at_ms: self.from_ms,
            to_ms: self.to_ms,
            count: i64::try_from(self.moments.len()).unwrap_or(i64::MAX),
            bytes: block(&self.moments.concat()),
        })
    }
}

impl Files {
    /// Opens the file for the rows of a span.
    fn rows(&mut self, dir: &Path, grain: Grain, at_ms: i64) -> Result<&mut RowFile, Error> {
        let period = grain.period(at_ms);
        let slot = match grain {
            Grain::Minute => &mut self.day,
            Grain::Quarter => &mut self.month,
        };
        self.at = dir.join(period.file());
        let file = match slot.take() {
            Some((open, file)) if open == period => file,
            _ => RowFile::open(dir, period)?,
        };
        Ok(&mut slot.insert((period, file)).1)
    }

    fn note(&mut self, dir: &Path, gaps: &[Gap]) -> Result<(), Error> {
        for gap in gaps {
            let month = self.rows(dir, Grain::Quarter, gap.from_ms)?;
            month.add_gaps(std::slice::from_ref(gap))?;
        }
        Ok(())
    }
}
