//! `pinhead-lab experiment`: runs the published experiments again, and shows their results.

mod machine;

use crate::Error;
use crate::output::print;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use lab::catalog::Experiment;
use lab::site::Tools;
use lab::{Asked, Bench, Outcome, catalog, shelf};
use pinhead::args::Format;
use pinhead::escape::{LINE_MAX, json, plain_lines};
use pinhead::terminal::{complain, fitted_to_stdout, width};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `pinhead-lab experiment`
#[derive(Debug, Args)]
pub struct ExperimentArgs {
    /// Action to run
    #[command(subcommand)]
    pub what: What,
}

/// Actions on experiments.
#[derive(Debug, Subcommand)]
pub enum What {
    /// List the experiments, and the results in a directory
    List(ListArgs),
    /// Show a result next to the published figures
    Show(ShowArgs),
    /// Compare two results
    Compare(CompareArgs),
    /// Measure first and later hits on web servers, with and without memory pressure
    Penguins(PenguinsArgs),
    /// Compare a small guest that swaps to memory with a large guest
    Swap(RunArgs),
    /// Compare ballooning with page reporting, with a database in each guest
    Cmm(RunArgs),
    /// Compare the published rules and pinhead's policy with guests sized by hand
    Plug(PlugArgs),
}

/// `pinhead-lab experiment list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Directory of the results
    #[arg(long, default_value = "results")]
    pub dir: PathBuf,
}

/// `pinhead-lab experiment show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// JSON file of the result
    pub file: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: ShowFormat,
}

/// Output format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ShowFormat {
    /// Human-readable text
    Text,
    /// A page with charts
    Html,
    /// The stored JSON
    Json,
}

/// `pinhead-lab experiment compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// JSON file of the first result
    pub first: PathBuf,
    /// JSON file of the second result
    pub second: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// `pinhead-lab experiment NAME`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Smoke test with few guests and short phases
    ///
    /// The test takes at most five minutes. Its figures mean nothing.
    #[arg(long)]
    pub quick: bool,
    /// Number of guests, if the experiment allows a choice
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4000))]
    pub guests: Option<u32>,
    /// Number of rounds; each round runs every case once
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repetitions: Option<u32>,
    /// Number of requests in a case, for experiments with a request rate
    ///
    /// Fewer requests take less time, and their percentiles vary more.
    #[arg(long, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub requests: Option<u32>,
    /// Run this case instead of the default cases; may be given several times
    #[arg(long = "case", value_name = "CASE")]
    pub cases: Vec<String>,
    /// Continue the newest result of this experiment, if there is one
    #[arg(long)]
    pub resume: bool,
    /// Directory for the result
    #[arg(long, default_value = "results")]
    pub out: PathBuf,
}

/// `pinhead-lab experiment penguins`
#[derive(Debug, Args)]
pub struct PenguinsArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Number of servers to run at once, or "max" for the maximum
    ///
    /// This replaces the usual measurement. Idle servers are parked, and smaller counts run first.
    #[arg(long, value_name = "N|max", value_parser = count, conflicts_with = "guests")]
    count: Option<Count>,
}

/// `pinhead-lab experiment plug`
#[derive(Debug, Args)]
pub struct PlugArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Earlier result with the sizes by hand, instead of a search
    ///
    /// The result must be of the same machine. The search takes half an hour.
    #[arg(long, value_name = "FILE")]
    sizes: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Servers(u32),
    Max,
}

fn count(text: &str) -> Result<Count, String> {
    match (text, text.parse()) {
        ("max", _) => Ok(Count::Max),
        (_, Ok(servers @ 1..=lab::COUNT_MAX)) => Ok(Count::Servers(servers)),
        _ => Err(format!("write a number from 1 to {} or max", lab::COUNT_MAX)),
    }
}

/// Runs an experiment or shows results. Returns the text for standard output.
pub fn run(args: &ExperimentArgs) -> Result<String, Error> {
    match &args.what {
        What::List(args) => list(&args.dir),
        What::Show(args) => show(args),
        What::Compare(args) => compare(args),
        What::Penguins(PenguinsArgs { run, count }) => match count {
            None => experiment(&catalog::PENGUINS, run, run.guests, None),
            Some(Count::Servers(servers)) => experiment(&catalog::COUNT, run, Some(*servers), None),
            Some(Count::Max) => experiment(&catalog::COUNT, run, None, None),
        },
        What::Swap(args) => experiment(&catalog::SWAP, args, args.guests, None),
        What::Cmm(args) => experiment(&catalog::CMM, args, args.guests, None),
        What::Plug(PlugArgs { run, sizes }) => {
            experiment(&catalog::PLUG, run, run.guests, sizes.clone())
        }
    }
}

fn experiment(
    experiment: &Experiment,
    args: &RunArgs,
    guests: Option<u32>,
    sizes: Option<PathBuf>,
) -> Result<String, Error> {
    let program = machine::program()?;
    let asked = Asked {
        quick: args.quick,
        guests,
        repetitions: args.repetitions,
        requests: args.requests,
        sizes,
        cases: args.cases.clone(),
        out: args.out.clone(),
        tools: Tools {
            program: program.clone(),
            farms: farm::rundir::base()
                .map_err(|e| Error::step("No place for the farm's sockets", e))?,
        },
    };
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(lab::stop_flag()))
            .map_err(|e| Error::step("Cannot collect signals", e))?;
    }
    let fresh = Outcome {
        format: lab::outcome::FORMAT,
        experiment: experiment.name.to_owned(),
        quick: args.quick,
        command: std::env::args().collect::<Vec<_>>().join(" "),
        commit: machine::commit(),
        program: machine::identity(&program),
        started: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        seconds: 0.0,
        machine: machine::machine(),
        settings: BTreeMap::new(),
        runs: Vec::new(),
        notes: Vec::new(),
    };
    let kept = if args.resume { lab::resumed(&args.out, &fresh)? } else { None };
    let mut progress = |line: &str| complain(&base::plain(line, LINE_MAX));
    if args.resume {
        progress(&match &kept {
            Some(kept) => kept.notes.last().cloned().unwrap_or_default(),
            None => format!("There is no result in {} yet: a new one begins.", args.out.display()),
        });
    }
    let outcome = kept.unwrap_or(fresh);
    let mut bench = Bench::new(asked, outcome, experiment.view, &mut progress);
    let result = (experiment.run)(&mut bench);
    if result.is_err() && bench.outcome().runs.is_empty() {
        // Without any measurement no page is written, for instance if the case does not exist.
        result?;
        return Ok(String::new());
    }
    // The result is saved after a failure as well, because earlier measurements are still useful.
    let path = bench.save()?;
    let outcome = bench.outcome().clone();
    let mut out = plain_lines(&lab::text(&outcome, &catalog::view(&outcome), stdout_width()));
    let _ = writeln!(out, "\n{}\n{}", path.display(), path.with_extension("html").display());
    if let Err(error) = result {
        print(&out);
        return Err(error.into());
    }
    Ok(out)
}

fn list(directory: &Path) -> Result<String, Error> {
    let mut out = String::new();
    for one in &catalog::ALL {
        let _ = writeln!(out, "{:10}  {}", one.name, one.title);
    }
    if !directory.is_dir() {
        let _ = writeln!(out, "\nThere are no results in {}.", directory.display());
        return Ok(fitted_to_stdout(&out));
    }
    let _ = writeln!(out, "\nResults in {}:", directory.display());
    for (path, outcome) in shelf::list(directory)? {
        let name = base::plain(&path.display().to_string(), LINE_MAX);
        let about = match outcome {
            Ok(outcome) => {
                let quick = if outcome.quick { ", quick" } else { "" };
                let failed = match outcome.failures().len() {
                    0 => String::new(),
                    count => format!(", {count} phases failed"),
                };
                let cases = outcome.cases().len();
                format!(
                    "{} of {}{quick}, {cases} cases, {:.0} s{failed}",
                    outcome.experiment, outcome.started, outcome.seconds
                )
            }
            Err(error) => error.to_string(),
        };
        let _ = writeln!(out, "  {name}  {}", base::plain(&about, LINE_MAX));
    }
    Ok(fitted_to_stdout(&out))
}

fn show(args: &ShowArgs) -> Result<String, Error> {
    let outcome = shelf::load(&args.file)?;
    let view = catalog::view(&outcome);
    Ok(match args.format {
        ShowFormat::Text => plain_lines(&lab::text(&outcome, &view, stdout_width())),
        ShowFormat::Html => lab::page(&outcome, &view),
        ShowFormat::Json => json(&outcome)?,
    })
}

/// Returns the columns of standard output, if that is a terminal.
fn stdout_width() -> Option<usize> {
    width(std::io::stdout())
}

fn compare(args: &CompareArgs) -> Result<String, Error> {
    let (first, second) = (shelf::load(&args.first)?, shelf::load(&args.second)?);
    let table = lab::compare(&first, &second);
    Ok(match args.format {
        Format::Text => plain_lines(&lab::table(&table, stdout_width())),
        Format::Json => {
            let rows: Vec<_> = table
                .rows
                .iter()
                .map(|row| table.heads.iter().zip(row).collect::<BTreeMap<_, _>>())
                .collect();
            json(&rows)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_number_or_max() {
        assert_eq!(count("max"), Ok(Count::Max));
        assert_eq!(count("1000"), Ok(Count::Servers(1000)));
        for wrong in ["0", "2001", "-1", "many", ""] {
            let error = count(wrong).unwrap_err();
            assert_eq!(error, "write a number from 1 to 2000 or max", "{wrong:?}");
        }
    }
}
