//! Arguments that several commands share, and those of the small ones. A command with a module of
//! its own has its arguments there.

use clap::{Args, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

/// How to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// How to show running guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UpFormat {
    /// A table that is kept up to date
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

/// The farm's own process, started by `pinhead up FARM.toml --detach`.
#[derive(Debug, Args)]
pub struct ServiceArgs {
    /// The farm's file
    pub farm: PathBuf,
    /// Only these classes
    #[arg(long)]
    pub only: Vec<String>,
    /// End after so many seconds
    #[arg(long = "for")]
    pub seconds: Option<u64>,
}

/// `pinhead up`
#[derive(Debug, Args)]
pub struct UpArgs {
    /// A file that describes the guests, instead of the options for guests that are all alike
    #[arg(value_name = "FARM.toml", conflicts_with_all = [
        "guests", "arch", "rules", "cpus", "memory", "pace", "idle",
    ])]
    pub farm: Option<PathBuf>,
    /// End when all guests are ready, and let them run; `pinhead down` ends them
    ///
    /// They go on in a process of its own. If this command is ended before they are ready, the
    /// farm is too.
    #[arg(long, requires = "farm", conflicts_with = "format")]
    pub detach: bool,
    /// Only the guests of this class; may be given several times
    #[arg(long, value_name = "CLASS", requires = "farm")]
    pub only: Vec<String>,
    /// How many guests, 1 to 1000
    ///
    /// They are called g1, g2 and so on.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub guests: u32,
    /// Their architecture
    #[arg(long, value_enum, default_value = "x86_64")]
    pub arch: ArchArg,
    /// A rules file, or the name of a preset
    #[arg(long, default_value = "default")]
    pub rules: String,
    /// End after so many seconds
    #[arg(long = "for", value_name = "SECONDS")]
    pub seconds: Option<u64>,
    /// How to show them
    #[arg(long, value_enum, default_value = "table")]
    pub format: UpFormat,
    /// CPUs of each guest, 1 to 64
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub cpus: u32,
    /// Memory of each guest, 128 to 65536 MiB
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(128..=65_536))]
    pub memory: u64,
    /// When the daemons look
    ///
    /// The paces are those of pinheadd(8).
    #[arg(long, value_enum, default_value = "host")]
    pub pace: PaceArg,
    /// Guests without a load of their own
    ///
    /// Otherwise the first guest has busy loops that come and go, the second fills and frees
    /// memory, the third does nothing, and so on.
    #[arg(long)]
    pub idle: bool,
}

/// When a daemon looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PaceArg {
    /// Every UPDATE seconds
    Fixed,
    /// Less often while nothing changes
    Adaptive,
    /// When the host says that there is something to see
    Host,
}

/// `pinhead check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Rules files; a name that is no file may be a preset's
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// The guest to check against: a captured tree with proc/ and sys/
    #[arg(long, value_name = "DIR", conflicts_with = "no_machine")]
    pub root: Option<PathBuf>,
    /// Check the language alone, not against a machine
    #[arg(long)]
    pub no_machine: bool,
    /// Rules of the host's manager, whatever names they set
    ///
    /// Without it such a file is known by the names that it sets; see pinhead-host-rules(5).
    #[arg(long, conflicts_with_all = ["root", "no_machine"])]
    pub host: bool,
}

/// `pinhead explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A rules file, or the name of a preset
    pub file: PathBuf,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// A captured tree with proc/ and sys/, or one with such trees in 0/, 1/, 2/ ...,
    /// oldest first
    #[arg(long, value_name = "DIR", conflicts_with = "guest")]
    pub root: Option<PathBuf>,
    /// A guest that `pinhead up` is running; for a host's rules, one that `pinhead host`
    /// manages
    ///
    /// Where several farms have a guest of this name, FARM/GUEST says which; PID/GUEST, with the
    /// process id of `pinhead up`, where there is no farm's file.
    #[arg(long, value_name = "NAME")]
    pub guest: Option<String>,
    /// The manager's socket, if not the usual one
    #[arg(long, value_name = "PATH", requires = "guest")]
    pub socket: Option<PathBuf>,
    /// What the host's manager knows, for its rules: a JSON object of counters, each with
    /// its readings, newest first
    ///
    /// See pinhead-host-rules(5).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "guest", "interval"])]
    pub values: Option<PathBuf>,
    /// Milliseconds between two looks, instead of the file's UPDATE
    #[arg(long, value_name = "MS")]
    pub interval: Option<u64>,
}

/// `pinhead conform`
#[derive(Debug, Args)]
pub struct ConformArgs {
    /// Scenarios, one JSON object a line; may be gzipped
    pub file: PathBuf,
}

/// `pinhead presets`
#[derive(Debug, Args)]
pub struct PresetsArgs {
    /// Print this one
    pub name: Option<String>,
}

/// `pinhead completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// For which shell
    pub shell: Shell,
}
