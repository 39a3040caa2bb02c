//! The command line.

use crate::args::{
    CheckArgs, CompletionsArgs, ConformArgs, ExplainArgs, PresetsArgs, ServiceArgs, UpArgs,
};
use crate::cache::CacheArgs;
use crate::capacity::CapacityArgs;
use crate::experiment::ExperimentArgs;
use crate::farm_cmds::{ConsoleArgs, DownArgs, ExecArgs, LogsArgs, ParkArgs};
use crate::fleet::FleetArgs;
use crate::idle::IdleArgs;
use crate::load::LoadArgs;
use crate::manage::{HostArgs, PsArgs, ReserveArgs, SetArgs};
use crate::record::RecordArgs;
use crate::replay::{ReplayArgs, SimulateArgs};
use crate::report::ReportArgs;
use crate::schema::SchemaArgs;
use crate::size::SizeArgs;
use crate::sql::SqlArgs;
use crate::top::TopArgs;
use crate::tune::TuneArgs;
use crate::web::WebArgs;
use crate::why::WhyArgs;
use crate::zvm::ZvmArgs;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

/// Many Linux servers on one small machine: every guest gets the CPUs and the memory
/// that its work needs now, and gives back what it does not need.
#[derive(Debug, Parser)]
#[command(name = "pinhead", version, about, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start guests and watch them gain and give back CPUs and memory
    Up(UpArgs),
    /// End a farm that `pinhead up FARM.toml` runs, with all that belongs to it
    Down(DownArgs),
    /// Attach the terminal to a guest's console; Ctrl-] leaves it
    Console(ConsoleArgs),
    /// Run a command in a guest
    Exec(ExecArgs),
    /// Print what a guest's console has said
    Logs(LogsArgs),
    /// Stop guests that nobody needs now, and page out their memory
    Park(ParkArgs),
    /// Let guests run that are parked
    Wake(ParkArgs),
    /// Run a farm for a command that waits for its start
    #[command(hide = true)]
    FarmService(ServiceArgs),
    /// Put a load on guests, and tell how long they take
    Load(LoadArgs),
    /// Repeat a published experiment, or look at results
    Experiment(ExperimentArgs),
    /// Manage the memory of all guests of this machine
    Host(HostArgs),
    /// List the guests that the manager knows, and what it did with them
    Ps(PsArgs),
    /// Change what a guest is entitled to
    Set(SetArgs),
    /// Free memory for a guest that is about to start
    Reserve(ReserveArgs),
    /// Tell what was decided about a guest, and why
    Why(WhyArgs),
    /// Show the host and its guests as they are, once a second
    Top(TopArgs),
    /// Show host and guests in a browser
    Web(WebArgs),
    /// Show all hosts that push to an engine, and which guests would be better off elsewhere
    Fleet(FleetArgs),
    /// Make a report of what was recorded
    Report(ReportArgs),
    /// Decide again what was decided, by the same policy or by another
    Replay(ReplayArgs),
    /// Play what was recorded in another world
    Simulate(SimulateArgs),
    /// Tell how large guests should be, by what was recorded of them
    Size(SizeArgs),
    /// Tell what deserves doing, by what was recorded
    Tune(TuneArgs),
    /// Show who wakes an idle guest, and what that costs
    Idle(IdleArgs),
    /// Take recordings elsewhere, with other names if that is wanted
    Record(RecordArgs),
    /// List the tables and columns of the recordings
    Schema(SchemaArgs),
    /// Ask the recordings a question of your own
    Sql(SqlArgs),
    /// Record what z/VM's monitor, or the hypervisor, says of its guests
    Zvm(ZvmArgs),
    /// Show every level of machine, partition and hypervisor above this system
    Capacity(CapacityArgs),
    /// Hold the lease of the manager that started this process
    #[command(hide = true)]
    Keeper {
        /// File in which the manager writes down the guests that it has parked
        parked: Option<PathBuf>,
    },
    /// Show what guests are made of, make it of newer packages, or remove what is not needed
    Cache(CacheArgs),
    /// Look rules files through for errors, and for what is probably not meant
    Check(CheckArgs),
    /// Show every value that a rules file sees now, and what the daemon would do
    Explain(ExplainArgs),
    /// Decide recorded scenarios again, and compare
    Conform(ConformArgs),
    /// List the published configurations, or print one
    Presets(PresetsArgs),
    /// Print what a shell needs to complete commands and options
    Completions(CompletionsArgs),
}

/// Generates a shell's completion script. Commands that exist only for other commands are left out.
pub fn completions(shell: Shell) -> String {
    let whole = Cli::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut cli = clap::Command::new("pinhead").version("").subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli, "pinhead", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
