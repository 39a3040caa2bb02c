//! The command line.

use crate::args::{
    CheckArgs, CompletionsArgs, ConformArgs, ExplainArgs, NamesArgs, PresetsArgs, ServiceArgs,
    UpArgs,
};
use crate::cache::CacheArgs;
use crate::capacity::CapacityArgs;
use crate::completions;
use crate::farm_cmds::{ConsoleArgs, DownArgs, ExecArgs, LogsArgs, ParkArgs};
use crate::fleet::FleetArgs;
use crate::idle::IdleArgs;
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
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

/// Run many Linux servers on one small machine
#[derive(Debug, Parser)]
#[command(name = "pinhead", version, about)]
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
    /// Manage the memory of all guests of this machine
    Host(HostArgs),
    /// List guests and the last decision about each
    Ps(PsArgs),
    /// Change a guest's limits
    Set(SetArgs),
    /// Free and hold memory for a new guest
    Reserve(ReserveArgs),
    /// Explain the decisions about a guest
    ///
    /// In a pipe, each decision is one line, and no line is broken.
    Why(WhyArgs),
    /// Show the host and its guests live, once a second
    Top(TopArgs),
    /// Show host and guests in a browser
    Web(WebArgs),
    /// Show all hosts of a metrics server, and suggest migrations
    Fleet(FleetArgs),
    /// Print a report from recordings
    Report(ReportArgs),
    /// Re-run recorded decisions with the same or another policy
    Replay(ReplayArgs),
    /// Simulate recorded load with another host, policy or guest count
    Simulate(SimulateArgs),
    /// Recommend guest sizes from recordings
    Size(SizeArgs),
    /// Suggest improvements from recordings
    Tune(TuneArgs),
    /// Show the tasks that wake an idle guest, and their cost
    Idle(IdleArgs),
    /// Export or import recordings, optionally with replaced names
    Record(RecordArgs),
    /// List the tables and columns of the recordings
    Schema(SchemaArgs),
    /// Query the recordings with SQL
    Sql(SqlArgs),
    /// Record data about guests from z/VM's monitor or the hypervisor
    Zvm(ZvmArgs),
    /// Show the machine, partition and hypervisor of this system
    Capacity(CapacityArgs),
    /// Hold the lease of the manager that started this process
    #[command(hide = true)]
    Keeper {
        /// File with the guests that the manager has parked
        parked: Option<PathBuf>,
    },
    /// List, refresh or prune the images of guests
    Cache(CacheArgs),
    /// Check rules, farms and settings for errors and likely mistakes
    Check(CheckArgs),
    /// Evaluate a rules file now, and show every value
    Explain(ExplainArgs),
    /// Replay recorded scenarios and compare the decisions
    Conform(ConformArgs),
    /// List the built-in rules files, or print one
    Presets(PresetsArgs),
    /// Print names for the completion of a shell
    #[command(hide = true)]
    Names(NamesArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
}

/// Commands in the order of the help text, by purpose.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Run guests", &["up", "down", "ps", "exec", "console", "logs", "park", "wake", "cache"]),
    ("Manage memory and CPUs", &["host", "set", "reserve"]),
    ("Watch", &["top", "web", "fleet", "idle", "capacity"]),
    ("Look back", &["why", "report", "record", "schema", "sql"]),
    ("Decide", &["size", "tune", "replay", "simulate"]),
    ("z/VM", &["zvm"]),
    ("Rules", &["check", "explain", "presets", "conform", "completions"]),
];

/// Returns the command line, with a help text that lists the commands by purpose.
pub fn command() -> clap::Command {
    let cli = Cli::command();
    let mut list = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(list, "{heading}:");
        for name in names {
            let about = cli.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(list, "  {name:<12} {about}");
        }
        list.push('\n');
    }
    cli.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}\n\n\
         `pinhead help COMMAND` describes a command."
    ))
}

/// Generates a shell's completion script. Commands that only other commands run are left out.
pub fn completions(shell: Shell) -> String {
    let whole = Cli::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    completions::script(shell, clap::Command::new("pinhead").version("").subcommands(shown))
}

/// Adds a line for a command, and a line for each of its arguments and values. The same is done for
/// its subcommands.
pub fn surface(path: &str, command: &clap::Command, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    for arg in command.get_arguments().filter(|arg| arg.get_id() != "help") {
        found.extend(argument(arg).into_iter().map(|line| format!("{path} {line}")));
    }
    for below in command.get_subcommands() {
        surface(&format!("{path} {}", below.get_name()), below, found);
    }
}

fn argument(arg: &clap::Arg) -> Vec<String> {
    let name = match arg.get_long() {
        Some(long) => format!("--{long}"),
        None => format!("<{}>", arg.get_id()),
    };
    let mut lines = vec![name.clone()];
    lines.extend(arg.get_short().map(|short| format!("{name} = -{short}")));
    // A switch has the implicit values true and false, which no user types.
    let typed = arg.get_action().takes_values();
    let values = if typed { arg.get_possible_values() } else { Vec::new() };
    lines.extend(values.iter().map(|value| format!("{name} {}", value.get_name())));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_a_size_or_a_share_of_more_than_nothing() {
        let parsed = |budget| Cli::try_parse_from(["pinhead", "host", "--budget", budget]);
        assert!(["480 MiB", "1GiB", "50%"].iter().all(|budget| parsed(budget).is_ok()));
        let refused = |budget| parsed(budget).unwrap_err().to_string();
        assert!(refused("0 MiB").contains("no memory would be left for guests: omit the budget"));
        assert!(refused("480").contains("256M"), "{}", refused("480"));
    }

    #[test]
    fn options_of_an_executed_command_need_no_separator() {
        for words in [["exec", "g1", "ls", "-l"].as_slice(), &["exec", "g1", "--", "ls", "-l"]] {
            let words = ["pinhead"].iter().chain(words);
            let Command::Exec(args) = Cli::try_parse_from(words).unwrap().command else {
                panic!("another command");
            };
            assert_eq!((&*args.guest, args.command), ("g1", vec!["ls".into(), "-l".into()]));
        }
    }

    #[test]
    fn help_command_describes_a_command() {
        let shown = |words: &[&str]| {
            let words = ["pinhead"].iter().chain(words);
            let help = command().try_get_matches_from(words).unwrap_err();
            (help.kind(), help.to_string())
        };
        let (kind, text) = shown(&["help"]);
        assert_eq!(kind, clap::error::ErrorKind::DisplayHelp);
        assert!(text.contains("Manage memory and CPUs:"), "{text}");
        let (kind, text) = shown(&["help", "reserve"]);
        assert_eq!(kind, clap::error::ErrorKind::DisplayHelp);
        assert!(text.contains("--hold <SPAN>"), "{text}");
        assert!(shown(&["help", "reserv"]).1.contains("reserv"));
    }

    #[test]
    fn help_lists_every_command_once_in_80_columns() {
        let help = command().render_help().to_string();
        let listed = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
        let listed: Vec<&str> = listed.collect();
        let cli = Cli::command();
        let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown: Vec<&str> = shown.map(clap::Command::get_name).collect();
        shown.sort_unstable();
        let mut sorted = listed.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, shown);
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, [""; 0], "{help}");
    }
}
