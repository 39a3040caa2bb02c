//! `pinhead record`: exports and imports recordings, as a directory or as a stream.
//!
//! ```text
//!   recordings, journal ─► store::Travel (a time, other names) ─► DIR ─► tar ─► standard output
//!   tar or DIR ─► checked ─► DIR
//! ```

mod bundle;

pub use bundle::read as unpack;

use crate::making::Making;
use crate::waiting::Task;
use crate::why::{recorded_now, time_between};
use crate::{Error, RecordingsError};
use bundle::{JOURNAL, RECORDINGS};
use clap::{Args, Subcommand};
use reports::recorded;
use std::fs;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use store::{Journal, Names, Records, Taken, Travel};
use why::when::{self, Now};

/// Directory in which a stream is prepared. The directory must be on a disk, because the stream may
/// be large.
const READY: &str = "/var/tmp";
/// Maximum number of guests in one query of a journal.
const GUESTS_MAX: usize = 10_000;
/// Length of the time spans in which records are read, in milliseconds.
const PART_MS: i64 = 10_000 * base::duration::MINUTE_MS;
/// Name for standard input and output.
const STREAM: &str = "-";

/// `pinhead record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Action on recordings
    #[command(subcommand)]
    pub command: RecordCommand,
}

/// Actions on recordings.
#[derive(Debug, Subcommand)]
pub enum RecordCommand {
    /// Export recordings and journal of a time span to a directory or stream
    Export(ExportArgs),
    /// Check an export, and unpack it into a new directory
    Import(ImportArgs),
}

/// `pinhead record export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// New directory, or `-` for a tar on standard output
    #[arg(value_name = "TO")]
    pub target: PathBuf,
    /// Start time: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"
    ///
    /// The default is the beginning of the recordings.
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// End time; default: now, or the end of the recordings in --dir
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Rename guests, classes and processes to guest1, class1, process1
    ///
    /// Sentences of decisions and events are left out, because they contain names.
    #[arg(long)]
    pub rename: bool,
    /// Directory of recordings instead of the manager's
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Journal file, instead of the manager's or the one next to --dir
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
}

/// `pinhead record import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Exported directory or file, or `-` for standard input
    pub from: PathBuf,
    /// New directory
    pub to: PathBuf,
}

/// Removes the files that a reader has created next to the databases.
fn tidy(making: &Making) -> Result<(), Error> {
    for dir in [making.path().to_owned(), making.path().join(RECORDINGS)] {
        let failed = |source| Error::Read { path: dir.clone(), source };
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.to_string_lossy();
            if name.ends_with("-wal") || name.ends_with("-shm") {
                fs::remove_file(&path).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// Creates a new directory that contains an empty directory for recordings.
fn begin(to: &Path) -> Result<Making, Error> {
    let making = Making::begin(to)?;
    making.add(RECORDINGS)?;
    Ok(making)
}

/// Exports or imports, and returns a message for the user.
pub fn run(args: &RecordArgs, out: &mut dyn Write) -> Result<String, Error> {
    match &args.command {
        RecordCommand::Export(args) => export(args, &::why::now(), out),
        RecordCommand::Import(args) => import(args, &::why::now(), &mut std::io::stdin().lock()),
    }
}

fn export(args: &ExportArgs, now: &Now, out: &mut dyn Write) -> Result<String, Error> {
    // Without times, everything is exported, even data later than the last recorded minute.
    let end = recorded_now(args.dir.as_deref(), now)?;
    let (from_ms, to_ms) = time_between(&args.from, &args.to, now.ms, &end)?;
    let to_ms = if args.to.is_some() { to_ms } else { now.ms };
    let dir = recorded::dir(args.dir.as_deref())?;
    let usual = || recorded::journal_of(args.dir.as_deref());
    let journal = args.journal.clone().unwrap_or_else(usual);
    let is_stream = args.target == Path::new(STREAM);
    let making = match is_stream {
        true => {
            let name = format!("pinhead-export-{}", std::process::id());
            begin(&Path::new(READY).join(name))?
        }
        false => begin(&args.target)?,
    };
    let task = Task::new("exporting the recordings");
    let names = args.rename.then(Names::default);
    let mut travel = Travel { from_ms, to_ms, names };
    let mut taken = travel.records(&Records::open(&dir)?, &making.path().join(RECORDINGS))?;
    if args.journal.is_some() || journal.exists() {
        task.is_now("exporting the journal".into());
        let mut to = Journal::open(&making.path().join(JOURNAL))?;
        to.begin()?;
        taken.decisions = travel.journal(&Journal::read_only(&journal)?, &mut to)?;
        to.commit()?;
    }
    if taken == Taken::default() {
        return Err(RecordingsError::EmptyTime.into());
    }
    if is_stream {
        task.is_now("writing the export".into());
        bundle::write(making.path(), out)?;
        return Ok(String::new());
    }
    making.done()?;
    Ok(told(&taken, &args.target))
}

fn told(taken: &Taken, to: &Path) -> String {
    format!(
        "{} rows, {} samples of a second, {} passes and {} decisions are in {}\n",
        taken.spans,
        taken.moments,
        taken.passes,
        taken.decisions,
        to.display()
    )
}

fn import(args: &ImportArgs, now: &Now, input: &mut dyn Read) -> Result<String, Error> {
    let making = begin(&args.to)?;
    let task = Task::new("unpacking the export");
    if args.from == Path::new(STREAM) {
        bundle::read(input, making.path())?;
    } else if args.from.is_dir() {
        bundle::copy(&args.from, making.path())?;
    } else {
        let failed = |source| Error::Read { path: args.from.clone(), source };
        bundle::read(&mut fs::File::open(&args.from).map_err(failed)?, making.path())?;
    }
    task.is_now("checking the import".into());
    let (taken, extent) = look_through(&making)?;
    if taken == Taken::default() {
        return Err(RecordingsError::EmptyImport.into());
    }
    making.done()?;
    Ok(told(&taken, &args.to) + &advice(&args.to, extent, now))
}

/// Returns the options of other commands for an import. `extent` is the start and the end of its
/// recordings.
fn advice(to: &Path, extent: Option<(i64, i64)>, now: &Now) -> String {
    let (recordings, journal) = (to.join(RECORDINGS), to.join(JOURNAL));
    let mut text = format!("Use it in other commands with --dir {}", recordings.display());
    if journal.exists() {
        text.push_str(&format!(", and in `pinhead why` with --journal {}", journal.display()));
    }
    if let Some((from_ms, to_ms)) = extent {
        let (from, to) = (when::show(from_ms, now), when::show(to_ms, now));
        text.push_str(&format!(". It covers {from} to {to}"));
    }
    text + "\n"
}

/// Reads all imported data, so that damage is reported immediately. Returns the numbers of data,
/// and the start and the end of the recordings.
fn look_through(making: &Making) -> Result<(Taken, Option<(i64, i64)>), Error> {
    let records = Records::open(&making.path().join(RECORDINGS))?;
    let mut taken = Taken::default();
    let extent = records.extent()?;
    if let Some((mut from_ms, end_ms)) = extent {
        while from_ms < end_ms {
            let to_ms = from_ms.saturating_add(PART_MS).min(end_ms);
            let span = store::Span { from_ms, to_ms, step_ms: base::duration::MINUTE_MS };
            records.visit(span, model::Parts::ALL, |interval| {
                taken.spans += u64::from(interval.host.covered_ms > 0);
                ControlFlow::Continue(())
            })?;
            from_ms = to_ms;
        }
    }
    records.raw(i64::MIN, i64::MAX, |_| {
        taken.moments += 1;
        ControlFlow::Continue(())
    })?;
    records.passes(i64::MIN, i64::MAX, |_| {
        taken.passes += 1;
        ControlFlow::Continue(())
    })?;
    if making.path().join(JOURNAL).exists() {
        let journal = Journal::read_only(&making.path().join(JOURNAL))?;
        let guests: Vec<_> = journal.guests()?.iter().map(|guest| guest.key).collect();
        let range = store::Range { from_ms: i64::MIN, to_ms: i64::MAX };
        for part in guests.chunks(GUESTS_MAX) {
            let query = store::Query { guests: part.to_vec(), range, policy: None };
            journal.decisions(&query, |_| {
                taken.decisions += 1;
                ControlFlow::Continue(())
            })?;
        }
    }
    tidy(making)?;
    Ok((taken, extent))
}

#[cfg(test)]
mod tests;
