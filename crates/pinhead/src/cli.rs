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

/// Run many Linux servers on one small machine: each guest gets the CPUs and the memory that its
/// work needs now, and returns the rest.
#[derive(Debug, Parser)]
#[command(name = "pinhead", version, about, disable_help_subcommand = true)]
pub struct Cli {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start guests and show how their CPUs and memory change
    Up(UpArgs),
    /// Stop a farm and clean up after it
    Down(DownArgs),
    /// Attach the terminal to a guest's console; Ctrl-] detaches it
    Console(ConsoleArgs),
    /// Run a command in a guest
    Exec(ExecArgs),
    /// Print a guest's console output
    Logs(LogsArgs),
    /// Suspend unused guests and page out their memory
    Park(ParkArgs),
    /// Resume parked guests
    Wake(ParkArgs),
    /// Run a farm for a command that waits for its start
    #[command(hide = true)]
    FarmService(ServiceArgs),
    /// Generate load on guests and measure latency
    Load(LoadArgs),
    /// Run a published experiment, or show results
    Experiment(ExperimentArgs),
    /// Manage the memory of all guests of this machine
    Host(HostArgs),
    /// List guests and the last decision about each
    Ps(PsArgs),
    /// Change a guest's limits
    Set(SetArgs),
    /// Free and hold memory for a new guest
    Reserve(ReserveArgs),
    /// Explain the decisions about a guest
    Why(WhyArgs),
    /// Show the host and its guests live, once a second
    Top(TopArgs),
    /// Show host and guests in a browser
    Web(WebArgs),
    /// Show all hosts of a metrics server, and suggest migrations of guests
    Fleet(FleetArgs),
    /// Print a report from recordings
    Report(ReportArgs),
    /// Re-run recorded decisions with the same or another policy
    Replay(ReplayArgs),
    /// Simulate recorded load with another host, policy or number of guests
    Simulate(SimulateArgs),
    /// Recommend guest sizes from recordings
    Size(SizeArgs),
    /// Suggest improvements from recordings
    Tune(TuneArgs),
    /// Show the tasks that wake an idle guest, and their cost
    Idle(IdleArgs),
    /// Export or import recordings, optionally with other names
    Record(RecordArgs),
    /// List the tables and columns of the recordings
    Schema(SchemaArgs),
    /// Query the recordings with SQL
    Sql(SqlArgs),
    /// Record data about guests from z/VM's monitor or the hypervisor
    Zvm(ZvmArgs),
    /// Show the machine, partition and hypervisor levels above this system
    Capacity(CapacityArgs),
    /// Hold the lease of the manager that started this process
    #[command(hide = true)]
    Keeper {
        /// File with the guests that the manager has parked
        parked: Option<PathBuf>,
    },
    /// List, refresh or prune the images of guests
    Cache(CacheArgs),
    /// Check rules files for errors and likely mistakes
    Check(CheckArgs),
    /// Evaluate a rules file now, and show every value
    Explain(ExplainArgs),
    /// Replay recorded scenarios and compare the decisions
    Conform(ConformArgs),
    /// List the built-in rules files, or print one
    Presets(PresetsArgs),
    /// Print a shell completion script
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
