//! Arguments of `pinhead-lab load`, and the summary of a load.

use clap::{Args, Subcommand};
use pinhead::args::Format;

/// `pinhead-lab load`
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The kind of load
    #[command(subcommand)]
    pub kind: Kind,
}

/// Kinds of load.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// Send requests to web servers, in a closed loop or at a rate
    Web(WebArgs),
    /// Send one request to every web server in turn
    Wipe(WipeArgs),
    /// Touch memory in all guests at the same time
    Claim(ClaimArgs),
    /// Write and read many files in guests
    Tar(TarArgs),
    /// Run many small processes in guests, like a kernel build
    Build(BuildArgs),
}

/// Servers to send requests to.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Servers: ADDRESS:PORT, ADDRESS:FIRST-LAST or http://ADDRESS:PORT/PATH
    #[arg(value_name = "TARGET", required_unless_present = "farm", conflicts_with = "farm")]
    pub targets: Vec<String>,
    /// Running farm with the target guests: its name or file
    #[arg(long, value_name = "FARM")]
    pub farm: Option<String>,
    /// Only the guests of this class; may be given several times
    #[arg(long, value_name = "CLASS", requires = "farm")]
    pub class: Vec<String>,
    /// Port in the guests, in place of their first forwarded port
    #[arg(long, value_name = "PORT", requires = "farm")]
    pub port: Option<u16>,
    /// Path to request from guests of a farm
    #[arg(long, value_name = "PATH", requires = "farm", default_value = "/")]
    pub path: String,
}

/// `pinhead-lab load web`
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Servers to send requests to
    #[command(flatten)]
    pub targets: TargetArgs,
    /// Number of clients; each sends its next request as soon as the last is answered
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "rate",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Requests a second, even while earlier requests are unanswered
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Maximum number of outstanding requests with --rate
    ///
    /// Requests beyond this number wait, and their waiting time counts.
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "rate",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub in_flight: u32,
    /// Seed for random times and targets with --rate
    ///
    /// The same seed gives the same requests. The gaps are distributed exponentially, as with many
    /// independent clients.
    #[arg(long, value_name = "SEED", requires = "rate")]
    pub random: Option<u64>,
    /// Seconds during which requests start
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Expected milliseconds between two requests of a client
    ///
    /// A second line of latencies corrects for coordinated omission: it includes the requests that
    /// late answers delayed.
    #[arg(long, value_name = "MS", conflicts_with = "rate",
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub interval: Option<u64>,
    /// Seconds after which an unanswered request has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// Use a connection for many requests
    ///
    /// Without this option each request opens its own connection.
    #[arg(long)]
    pub keep_alive: bool,
    /// Output format
    ///
    /// JSON contains all targets, all classes, and the answers of each second.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// `pinhead-lab load wipe`
#[derive(Debug, Args)]
pub struct WipeArgs {
    /// Servers to send requests to
    #[command(flatten)]
    pub targets: TargetArgs,
    /// Number of requests at a time
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Seconds after which an unanswered request has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Guests of the load, and output format.
#[derive(Debug, Args)]
pub struct GuestArgs {
    /// Guests; default: all guests of the farm
    #[arg(value_name = "GUEST")]
    pub guests: Vec<String>,
    /// Farm name or file; optional if only one farm runs
    #[arg(long, value_name = "FARM")]
    pub farm: Option<String>,
    /// Only the guests of this class; may be given several times
    #[arg(long, value_name = "CLASS", conflicts_with = "guests")]
    pub class: Vec<String>,
    /// Seconds after which an unfinished guest has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// `pinhead-lab load claim`
#[derive(Debug, Args)]
pub struct ClaimArgs {
    /// Guests of the load
    #[command(flatten)]
    pub guests: GuestArgs,
    /// Memory that each guest touches, in MiB
    #[arg(long, value_name = "MIB", required_unless_present = "release",
          value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub mib: Option<u64>,
    /// Fill the memory with incompressible data and keep it
    ///
    /// The data lies in /dev/shm, and cannot be shared. Without this option the memory is touched
    /// and freed.
    #[arg(long, requires = "mib")]
    pub hold: bool,
    /// Free the memory that was kept
    #[arg(long, conflicts_with_all = ["mib", "hold"])]
    pub release: bool,
}

/// `pinhead-lab load tar`
#[derive(Debug, Args)]
pub struct TarArgs {
    /// Guests of the load
    #[command(flatten)]
    pub guests: GuestArgs,
    /// Number of files
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub files: u32,
    /// Size of each file, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 64)]
    pub kib: u32,
    /// Number of rounds; each packs and unpacks the files
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: u32,
    /// Directory for the files in the guests
    #[arg(long, value_name = "DIR", default_value = "/tmp")]
    pub dir: String,
}

/// `pinhead-lab load build`
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Guests of the load
    #[command(flatten)]
    pub guests: GuestArgs,
    /// Number of source files
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub units: u32,
    /// Number of source files built at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub parallel: u32,
    /// Number of builds of all files
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub rounds: u32,
    /// Directory for the files in the guests
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
