//! Arguments that several commands share, and the arguments of small commands. A command with its
//! own module has its arguments there.

use crate::quantities::mib;
use base::duration::{parse_bare_ms, parse_seconds};
use clap::{Args, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;
use vm::images;

/// Headings of options.
const FARM_FILE: &str = "Options for a farm file";
const IDENTICAL: &str = "Options for identical guests";

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Human-readable text
    Text,
    /// Machine-readable JSON
    Json,
}

/// Output format for running guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UpFormat {
    /// A live table
    Table,
    /// One JSON object at the end
    Json,
}

/// A guest's architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArchArg {
    /// PC
    #[value(name = "x86_64")]
    X86_64,
    /// IBM Z, with the kernel's own CMM pool
    #[value(name = "s390x")]
    S390x,
}

impl From<ArchArg> for images::Arch {
    fn from(arch: ArchArg) -> images::Arch {
        match arch {
            ArchArg::X86_64 => images::Arch::X86_64,
            ArchArg::S390x => images::Arch::S390x,
        }
    }
}

/// The farm's own process, started by `pinhead up FARM.toml --detach`.
#[derive(Debug, Args)]
pub struct ServiceArgs {
    /// Farm file
    pub farm: PathBuf,
    /// Only these classes
    #[arg(long)]
    pub only: Vec<String>,
    /// Exit after this time
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_seconds)]
    pub seconds: Option<u64>,
    /// Leave the guests' memory to their own rules
    #[arg(long)]
    pub no_manager: bool,
}

/// `pinhead up`
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Farm file; replaces the options for identical guests
    #[arg(value_name = "FARM.toml", conflicts_with_all = [
        "guests", "arch", "rules", "cpus", "memory", "pace", "idle",
    ])]
    pub farm: Option<PathBuf>,
    /// Return once all guests are ready; `pinhead down` stops them
    ///
    /// The farm runs in its own process. If this command is ended before the guests are ready, the
    /// farm stops too.
    #[arg(long, requires = "farm", conflicts_with = "format", help_heading = FARM_FILE)]
    pub detach: bool,
    /// Check the farm file or the options, print the resulting settings, and exit
    ///
    /// Keys with default values are printed as comments. Nothing is started or changed. An error is
    /// printed with its line, and the exit status is then 2.
    #[arg(long, conflicts_with_all = ["detach", "seconds"])]
    pub check: bool,
    /// Only the guests of this class; may be given several times
    #[arg(long, value_name = "CLASS", requires = "farm", help_heading = FARM_FILE)]
    pub only: Vec<String>,
    /// Number of guests, 1 to 1000
    ///
    /// The guests are named g1, g2 and so on.
    #[arg(long, default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = IDENTICAL)]
    pub guests: u32,
    /// Architecture of the guests
    #[arg(long, value_enum, default_value = "x86_64", help_heading = IDENTICAL)]
    pub arch: ArchArg,
    /// Rules file, or name of a preset
    #[arg(long, default_value = "default", help_heading = IDENTICAL)]
    pub rules: String,
    /// Exit after this time, such as 90s or 10m; a number alone means seconds
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_seconds)]
    pub seconds: Option<u64>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub format: UpFormat,
    /// CPUs of each guest, 1 to 64
    #[arg(long, default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=64), help_heading = IDENTICAL)]
    pub cpus: u32,
    /// Memory of each guest, 128M to 64G; a number alone means MiB
    #[arg(long, value_name = "SIZE", default_value = "256M",
        value_parser = mib(128..=65_536), help_heading = IDENTICAL)]
    pub memory: u64,
    /// Sampling pace of the guest daemons
    ///
    /// The paces are those of pinheadd(8).
    #[arg(long, value_enum, default_value = "host", help_heading = IDENTICAL)]
    pub pace: PaceArg,
    /// Start guests without a built-in load
    ///
    /// Otherwise loads alternate: intermittent busy loops in the first guest, filled and freed
    /// memory in the second, none in the third, and so on.
    #[arg(long, help_heading = IDENTICAL)]
    pub idle: bool,
    /// Leave the guests' memory to their own rules
    ///
    /// Otherwise this process manages the guests by the settings of `pinhead host`, as long as no
    /// `pinhead host` manages these guests.
    #[arg(long)]
    pub no_manager: bool,
}

/// Sampling pace of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PaceArg {
    /// Every UPDATE seconds
    Fixed,
    /// Less often while nothing changes
    Adaptive,
    /// When the host signals activity in the guest
    Host,
}

/// `pinhead check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Rules files, names of presets, or files of a farm or of the manager's settings
    ///
    /// A name that ends in .toml is a farm's file or the manager's settings, as recognised by its
    /// tables.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Guest to check against: a captured tree with proc/ and sys/
    #[arg(long, value_name = "DIR", conflicts_with = "no_machine")]
    pub root: Option<PathBuf>,
    /// Check only the language, not against a machine
    #[arg(long)]
    pub no_machine: bool,
    /// Treat the files as rules of the host manager
    ///
    /// Without this option a file of host rules is recognised by the names that it sets; see
    /// pinhead-host-rules(5).
    #[arg(long, conflicts_with_all = ["root", "no_machine"])]
    pub host: bool,
}

/// `pinhead explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Rules file, or name of a preset
    pub file: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Captured tree with proc/ and sys/
    ///
    /// A series of captured trees is a directory with 0/, 1/, 2/ ..., oldest first.
    #[arg(long, value_name = "DIR", conflicts_with = "guest")]
    pub root: Option<PathBuf>,
    /// Guest of `pinhead up` or `pinhead host`; for host rules, guest of `pinhead host`
    ///
    /// The files come from the guest's daemon. If several farms have a guest of this name, use
    /// FARM/GUEST. Without a farm file, use PID/GUEST with the process id of `pinhead up`.
    #[arg(long, value_name = "NAME")]
    pub guest: Option<String>,
    /// Manager's socket instead of the default
    #[arg(long, value_name = "PATH", requires = "guest")]
    pub socket: Option<PathBuf>,
    /// JSON object of counters to evaluate host rules with
    ///
    /// Each counter has its readings, newest first; see pinhead-host-rules(5).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "guest", "interval"])]
    pub values: Option<PathBuf>,
    /// Time between two samples instead of the file's UPDATE, such as 500ms or 2s
    ///
    /// A number alone means milliseconds.
    #[arg(long, value_name = "SPAN", value_parser = parse_bare_ms)]
    pub interval: Option<u64>,
}

/// `pinhead conform`
#[derive(Debug, Args)]
pub struct ConformArgs {
    /// Scenario file, one JSON object a line; may be gzipped
    pub file: PathBuf,
}

/// `pinhead presets`
#[derive(Debug, Args)]
pub struct PresetsArgs {
    /// Preset to print
    pub name: Option<String>,
}

/// Kinds of names that a shell completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NamesOf {
    /// Running guests
    Guests,
    /// Running farms
    Farms,
    /// Reports
    Reports,
    /// Presets
    Presets,
}

/// Names for the completion of a shell.
#[derive(Debug, Args)]
pub struct NamesArgs {
    /// Kind of names
    pub kind: NamesOf,
}

/// `pinhead completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell for the script
    pub shell: Shell,
}
