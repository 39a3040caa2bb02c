//! `pinhead report`: the seventeen reports, from this host's recordings or from a metrics server
//! with the recordings of a fleet.
//!
//! ```text
//!   args ─► question (reports, time, steps) ─► source (recordings, engine) ─► reports ─► text
//! ```

use crate::quantities::span;
use crate::terminal;
use crate::why::recorded_between;
use crate::{Error, RecordingsError, TimeError};
use base::duration::MINUTE_MS;
use clap::{Args, ValueEnum};
use metrics::names::Table;
use reports::recorded::{self, Wanted};
use reports::{By, Definition, Detail, HostData, Options, Pattern, Raw};
use std::path::PathBuf;
use why::when::{self, Now};

/// `pinhead report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Report: MAIN, GUEST1, STATE ..., or its old name, such as ESAUSR2
    ///
    /// Without a name all reports are listed.
    pub name: Option<String>,
    /// Subject of a row
    #[arg(long, value_enum, default_value = "guest", help_heading = "Rows")]
    pub by: ByArg,
    /// Only guests with a matching name or class, such as 'LNX1*'
    #[arg(long, value_name = "PATTERN", help_heading = "Rows")]
    pub class: Option<String>,
    /// Only the guest of this name, over time
    ///
    /// Upper and lower case may differ if only one guest has the name.
    #[arg(long, value_name = "NAME", conflicts_with = "class", help_heading = "Rows")]
    pub guest: Option<String>,
    /// Start time: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"
    ///
    /// The default is an hour before the end.
    #[arg(long, value_name = "TIME", help_heading = "Time")]
    pub from: Option<String>,
    /// End time; default: now, or the end of the recordings in --dir
    #[arg(long, value_name = "TIME", help_heading = "Time")]
    pub to: Option<String>,
    /// Interval of a row: 1m, 15m, 1h
    ///
    /// The default depends on the length of the time.
    #[arg(long, value_name = "SPAN", value_parser = span, help_heading = "Time")]
    pub interval: Option<String>,
    /// Maximum number of rows, without the sums
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Rows")]
    pub top: u32,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,
    /// Directory of recordings instead of the manager's
    #[arg(long, value_name = "DIR", conflicts_with = "from_prometheus", help_heading = "Source")]
    pub dir: Option<PathBuf>,
    /// Read from a Prometheus-compatible metrics server: http://127.0.0.1:8428
    #[arg(long, value_name = "URL", help_heading = "Source")]
    pub from_prometheus: Option<String>,
    /// Only this host of the metrics server
    ///
    /// Recordings do not contain the name of their host. They are shown under this name, instead of
    /// this machine's.
    #[arg(long, value_name = "NAME", help_heading = "Source")]
    pub host: Option<String>,
    /// Print the meaning, unit and source of each column of the report
    #[arg(long, requires = "name")]
    pub legend: bool,
}

/// Subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// One guest
    Guest,
    /// All guests of a class
    Class,
    /// All guests of a host
    Host,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Human-readable text
    Text,
    /// For spreadsheets
    Csv,
    /// Machine-readable JSON
    Json,
    /// A self-contained page with charts
    Html,
}

const USUAL: i64 = 60 * MINUTE_MS;
/// Number of rows in a text table, and of points in a chart.
const ROWS: i64 = 24;
const POINTS: i64 = 96;
/// Width of text, in columns, if the output is not a terminal.
const WIDTH: usize = 80;

/// Makes the report that the arguments name, with a line end.
pub fn run(args: &ReportArgs) -> Result<String, Error> {
    let Some(name) = &args.name else { return Ok(list()) };
    // An unknown name is an error before any recording is opened.
    let definitions = reports::find(name)?;
    let now = why::now();
    let width = terminal::width(std::io::stdout()).filter(|width| *width >= 40).unwrap_or(WIDTH);
    if args.legend {
        let of = |definition: &&Definition| reports::legend(definition, &metric, width);
        return Ok(definitions.iter().map(of).collect::<Vec<_>>().join("\n"));
    }
    let host = args.host.as_deref();
    let source = |wanted: &Wanted| -> Result<Vec<HostData>, Error> {
        Ok(match &args.from_prometheus {
            Some(url) => recorded::engine(&metrics::Url::parse(url)?, host, wanted)?,
            None => recorded::local(args.dir.as_deref(), host, wanted)?,
        })
    };
    answer(&source, args, &now, width)
}

/// Returns the metric of a raw field.
fn metric(raw: Raw) -> &'static str {
    fn of<F: Table>(field: F) -> &'static str {
        &F::metrics()[field.index()].name
    }
    match raw {
        Raw::Guest(field) => of(field),
        Raw::Host(field) => of(field),
        Raw::Tier(field) => of(field),
        Raw::Process(field) => of(field),
    }
}

fn list() -> String {
    let mut out = String::new();
    for report in reports::REPORTS {
        let old = report.heritage.join(", ");
        let old = if old.is_empty() { old } else { format!(" ({old})") };
        out.push_str(&format!("{:<7} {}{old}\n", report.name, report.title));
    }
    out
}

/// Makes the report from `source`, for the requested time span.
pub fn answer(
    source: &dyn Fn(&Wanted) -> Result<Vec<HostData>, Error>,
    args: &ReportArgs,
    now: &Now,
    width: usize,
) -> Result<String, Error> {
    let definitions = reports::find(args.name.as_deref().unwrap_or_default())?;
    if let [first, second, ..] = definitions[..]
        && args.format != ReportFormat::Text
    {
        let name = args.name.as_deref().unwrap_or_default().to_uppercase();
        let (first, second) = (first.name, second.name);
        return Err(RecordingsError::TwoReports { name, first, second }.into());
    }
    let wanted = wanted(args, now, &definitions)?;
    let recorded = source(&wanted)?;
    let pattern = match (&args.guest, &args.class) {
        (Some(name), _) => Some(Pattern::guest(reports::recorded_name(name, &recorded))?),
        (None, class) => class.as_deref().map(Pattern::new).transpose()?,
    };
    let zone = |at_ms| when::offset_min(at_ms, &now.zone);
    let options = Options {
        by: match args.by {
            ByArg::Guest => By::Guest,
            ByArg::Class => By::Class,
            ByArg::Host => By::Host,
        },
        pattern: pattern.as_ref(),
        top: usize::try_from(args.top).unwrap_or(usize::MAX),
        detail: match args.format {
            ReportFormat::Csv | ReportFormat::Json => Detail::Each,
            ReportFormat::Text | ReportFormat::Html => Detail::Sums,
        },
        zone: &zone,
    };
    reports::must_be_found(&recorded, &options)?;
    let mut printed = Vec::new();
    for definition in definitions {
        let report = reports::build(definition, &recorded, &options)?;
        printed.push(match args.format {
            ReportFormat::Text => reports::text(&report, &zone, width),
            ReportFormat::Csv => reports::csv(&report, &zone),
            ReportFormat::Json => reports::json(&report, &zone),
            ReportFormat::Html => reports::html(&report, &zone),
        });
    }
    // The process is about to end. The kernel then frees the memory at once, which is faster than
    // freeing each piece here.
    std::mem::forget(recorded);
    Ok(printed.join("\n"))
}

/// Returns the requested time span, its steps, and the data needed for the reports.
fn wanted(args: &ReportArgs, now: &Now, definitions: &[&Definition]) -> Result<Wanted, Error> {
    let (from_ms, to_ms) = recorded_between(&args.from, &args.to, USUAL, &args.dir, now)?;
    let points = if args.format == ReportFormat::Text { ROWS } else { POINTS };
    let step_ms = match &args.interval {
        Some(text) => when::span(text)?,
        None => when::usual_step(to_ms.saturating_sub(from_ms), points),
    };
    if step_ms < MINUTE_MS {
        return Err(TimeError::ShortInterval.into());
    }
    Ok(Wanted {
        from_ms: when::aligned(from_ms, step_ms, now),
        to_ms,
        step_ms,
        needs: reports::needs(definitions),
    })
}

#[cfg(test)]
mod faces;
#[cfg(test)]
mod tests;
