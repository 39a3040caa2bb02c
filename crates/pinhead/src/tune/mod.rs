//! `pinhead tune`: advice from recordings.

mod show;

use crate::args::Format;
use crate::quantities::span;
use crate::waiting::Task;
use crate::why::recorded_between;
use crate::{Error, TimeError};
use base::duration;
use clap::Args;
use manager::control::{Answer, Ask, ask_manager};
use reports::recorded;
use std::path::{Path, PathBuf};
use store::Records;
use whatif::{Sources, backtest};
use why::when::{self, Now};

const USUAL_MS: i64 = 1440 * duration::MINUTE_MS;
/// Step of the recordings: a row per minute.
const STEP_MS: i64 = duration::MINUTE_MS;
/// Maximum length of the time span. Minutes of more than a year would take too much memory.
const SPAN_MS_MAX: i64 = 366 * USUAL_MS;

/// `pinhead tune`
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Start time: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"
    ///
    /// The default is a day before the end.
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// End time; default: now, or the end of the recordings in --dir
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Time of a change: show the faults before it, and which of them remain
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Minimum history for advice on a guest's size: 90m, 3h, 1d
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = span)]
    pub enough: String,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Directory of recordings instead of the manager's
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Returns the advice.
pub fn run(args: &TuneArgs) -> Result<String, Error> {
    // Recordings of another host have other guests.
    let sources = if args.dir.is_none() { present(None) } else { Sources::default() };
    tune(args, &sources, &::why::now())
}

/// Returns the sources of the guests that run now.
pub(crate) fn present(socket: Option<&Path>) -> Sources {
    // The advice is also useful without a manager or a farm.
    let rows = match ask_manager(socket, &Ask::Ps) {
        Ok(Answer::Ps(ps)) => ps.guests,
        Ok(_) | Err(_) => Vec::new(),
    };
    let farms = farm::running::tables().unwrap_or_default().farms;
    let names = farms.iter().flat_map(|table| &table.guests).map(|guest| guest.name.as_str());
    Sources::new(&rows, names)
}

fn tune(args: &TuneArgs, sources: &Sources, now: &Now) -> Result<String, Error> {
    let (from_ms, to_ms) = recorded_between(&args.from, &args.to, USUAL_MS, &args.dir, now)?;
    if to_ms.saturating_sub(from_ms) > SPAN_MS_MAX {
        return Err(TimeError::OverYear.into());
    }
    let since_ms = args.since.as_deref().map(|text| when::begin(text, now)).transpose()?;
    // The minute of the change belongs neither to the time before nor to the time after.
    let minute_ms = since_ms.map(|since_ms| since_ms - since_ms.rem_euclid(STEP_MS));
    if minute_ms.is_some_and(|minute_ms| minute_ms <= from_ms || minute_ms + STEP_MS >= to_ms) {
        return Err(TimeError::SinceOutside.into());
    }
    let records = Records::open(&recorded::dir(args.dir.as_deref())?)?;
    let enough_ms = when::span(&args.enough)?.unsigned_abs();
    let found = |from_ms, to_ms| {
        let _task = Task::new("reading the recordings");
        backtest::tune(&records, (from_ms, to_ms), enough_ms)
    };
    let Some((since_ms, minute_ms)) = since_ms.zip(minute_ms) else {
        return show::show(&found(from_ms, to_ms)?, sources, args.format);
    };
    let (before, after) = (found(from_ms, minute_ms)?, found(minute_ms + STEP_MS, to_ms)?);
    show::since(&before, &after, since_ms, sources, args.format, now)
}

#[cfg(test)]
mod tests;
