//! `pinhead-lab`: the published experiments, and loads on guests.
//!
//! ```text
//!   pinhead-lab experiment NAME ─► lab: cases over farms and managers of `pinhead` ─► a result
//!   pinhead-lab load KIND       ─► load: requests or jobs ─► latencies, seconds of each round
//! ```

#![forbid(unsafe_code)]

mod error;
mod experiment;
mod load;
mod output;

use clap::{Parser, Subcommand};
use error::Error;
use output::print;
use pinhead::terminal;
use std::process::ExitCode;

/// Measure pinhead: run the published experiments, and generate load on guests
#[derive(Debug, Parser)]
#[command(name = "pinhead-lab", version, about)]
struct Cli {
    /// Command to run.
    #[command(subcommand)]
    command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run a published experiment, or show results
    ///
    /// Guests, limits and manager are those of `pinhead up` and `pinhead host`, so most experiments
    /// need root. A phase that fails keeps its measurements, and the files are written after each
    /// phase. An interrupted run stops its guests and restores the host's settings; `--resume`
    /// continues with the missing parts. Cases run in rounds, and all cases of a round have the
    /// same seed. At least six rounds are needed to show a claim. The measured
    /// `pinhead` is the program in the environment variable PINHEAD_PROGRAM, or else the `pinhead`
    /// next to this program.
    Experiment(experiment::ExperimentArgs),
    /// Generate load on guests and measure latency
    ///
    /// A latency is counted from the intended start of its request. With --rate this start is
    /// fixed in advance, so a server that stalls for a second is charged with every request of that
    /// second. A request that times out counts with the time that it waited. Other
    /// failed requests have no latency, and are counted by their reason. If a request failed, the
    /// exit status is 1.
    Load(load::LoadArgs),
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| terminal::leave(error));
    let result = match cli.command {
        Command::Experiment(args) => experiment::run(&args).map(|text| {
            print(&text);
            ExitCode::SUCCESS
        }),
        Command::Load(args) => run_load(&args),
    };
    result.unwrap_or_else(|error| {
        terminal::complain(&format!("pinhead-lab: {}", base::chain(&error)));
        ExitCode::from(2)
    })
}

/// Runs a load. The exit status is 1 if a request or a guest failed.
fn run_load(args: &load::LoadArgs) -> Result<ExitCode, Error> {
    let summary = load::run(args)?;
    print(&summary.text);
    Ok(ExitCode::from(u8::from(summary.failed > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    #[test]
    fn options_of_the_command_line_match_the_list() {
        let mut real = BTreeSet::new();
        pinhead::cli::surface("pinhead-lab", &Cli::command(), &mut real);
        let kept = include_str!("../../../tests/data/surface.txt");
        let kept: BTreeSet<String> = kept.lines().map(str::to_owned).collect();
        assert_eq!(real, kept);
    }
}
