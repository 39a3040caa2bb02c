//! Arguments of `pinhead load`, and the summary of a load.

use crate::args::Format;
use clap::{Args, Subcommand};

/// `pinhead load`
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The kind of load
    #[command(subcommand)]
    pub kind: Kind,
}

/// Kinds of load.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// Ask web servers: as fast as they answer, or at a rate
    Web(WebArgs),
    /// Ask every web server once, in turn
    Wipe(WipeArgs),
    /// Touch memory in guests, all at once
    Claim(ClaimArgs),
    /// Write and read many files in guests
    Tar(TarArgs),
    /// Run many small processes in guests, as a kernel's build does
    Build(BuildArgs),
}

/// Whom to ask.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Servers: ADDRESS:PORT, ADDRESS:FIRST-LAST or http://ADDRESS:PORT/PATH
    #[arg(value_name = "TARGET", required_unless_present = "farm", conflicts_with = "farm")]
    pub targets: Vec<String>,
    /// The guests of a farm that runs: its name, or its file
    #[arg(long, value_name = "FARM")]
    pub farm: Option<String>,
    /// Only the guests of this class; may be given several times
    #[arg(long, value_name = "CLASS", requires = "farm")]
    pub class: Vec<String>,
    /// The port in the guests, if not their first
    #[arg(long, value_name = "PORT", requires = "farm")]
    pub port: Option<u16>,
    /// What to ask guests of a farm for
    #[arg(long, value_name = "PATH", requires = "farm", default_value = "/")]
    pub path: String,
}

/// `pinhead load web`
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Whom to ask
    #[command(flatten)]
    pub targets: TargetArgs,
    /// Clients, each of which asks again as soon as it is answered
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "rate",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Requests a second, whether others are answered or not
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Requests under way at once, at a rate; those beyond it wait, and their time counts
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "rate",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub in_flight: u32,
    /// At a rate: at times and to targets by chance, the same for the same number
    ///
    /// As if many clients knew nothing of each other: the gaps are distributed exponentially.
    #[arg(long, value_name = "SEED", requires = "rate")]
    pub random: Option<u64>,
    /// For how long requests begin
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// A client's usual time between two requests: late answers are charged with those requests
    /// that they kept back
    ///
    /// A second line of latencies has those requests added that late answers kept back.
    #[arg(long, value_name = "MS", conflicts_with = "rate",
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub interval: Option<u64>,
    /// A request that is not answered in this time has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// Use a connection for many requests
    ///
    /// Without it each request has its own.
    #[arg(long)]
    pub keep_alive: bool,
    /// How to answer
    ///
    /// JSON has all targets, all classes, and the answers of each second.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// `pinhead load wipe`
#[derive(Debug, Args)]
pub struct WipeArgs {
    /// Whom to ask
    #[command(flatten)]
    pub targets: TargetArgs,
    /// How many are asked at a time
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// A request that is not answered in this time has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// In which guests, and how to answer.
#[derive(Debug, Args)]
pub struct GuestArgs {
    /// Guests; all of the farm if none is named
    #[arg(value_name = "GUEST")]
    pub guests: Vec<String>,
    /// The farm: its name, or its file; needless where only one runs
    #[arg(long, value_name = "FARM")]
    pub farm: Option<String>,
    /// Only the guests of this class; may be given several times
    #[arg(long, value_name = "CLASS", conflicts_with = "guests")]
    pub class: Vec<String>,
    /// A guest that is not done in this time has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// `pinhead load claim`
#[derive(Debug, Args)]
pub struct ClaimArgs {
    /// In which guests
    #[command(flatten)]
    pub guests: GuestArgs,
    /// How much memory each touches
    #[arg(long, value_name = "MIB", required_unless_present = "release",
          value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub mib: Option<u64>,
    /// Fill it with what nothing can share or compress, and keep it
    ///
    /// It lies in /dev/shm. Without this option memory is touched and given back.
    #[arg(long, requires = "mib")]
    pub hold: bool,
    /// Give back what was kept
    #[arg(long, conflicts_with_all = ["mib", "hold"])]
    pub release: bool,
}

/// `pinhead load tar`
#[derive(Debug, Args)]
pub struct TarArgs {
    /// In which guests
    #[command(flatten)]
    pub guests: GuestArgs,
    /// How many files
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub files: u32,
    /// Their size
    #[arg(long, value_name = "KIB", default_value_t = 64)]
    pub kib: u32,
    /// How often they are packed and unpacked
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: u32,
    /// The guests' directory for them
    #[arg(long, value_name = "DIR", default_value = "/tmp")]
    pub dir: String,
}

/// `pinhead load build`
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// In which guests
    #[command(flatten)]
    pub guests: GuestArgs,
    /// How many source files
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub units: u32,
    /// How many are worked on at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub parallel: u32,
    /// How often all are built
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub rounds: u32,
    /// The guests' directory for them
    #[arg(long, value_name = "DIR", default_value = "/tmp")]
    pub dir: String,
}

/// The summary of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The report for standard output.
    pub text: String,
    /// Number of requests or guests that failed.
    pub failed: u64,
}
