//! `pinhead host`, and the commands that query the manager: `ps`, `set`, `reserve`.

// Printing panics if nobody reads; the manager must go on.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod levers;
mod ps;
mod run;

pub use run::{keep, run};

use crate::Error;
use crate::args::Format;
use crate::escape::json;
use crate::farm_cmds::Beside;
use crate::why::DiffArgs;
use clap::{Args, Subcommand, ValueEnum};
use manager::config::Share;
use manager::control::{self, Answer, Ask, Change, Inputs, Ps};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// `pinhead host`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HostArgs {
    /// Instead of managing
    #[command(subcommand)]
    pub command: Option<HostCommand>,
    /// The settings, if not /etc/pinhead/host.toml
    ///
    /// Every key may be left out, and the default file too.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Decide and journal, and touch nothing
    ///
    /// The guests of `pinhead up` stay with it; where it moves their balloons itself, the manager
    /// leaves them to it and says so.
    #[arg(long)]
    pub dry_run: bool,
    /// End after so many seconds
    #[arg(long = "for", value_name = "SECONDS")]
    pub seconds: Option<u64>,
}

/// What can be done instead of managing.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Show where the active and the shadow policy part
    Diff(DiffArgs),
}

/// `pinhead ps`
#[derive(Debug, Args)]
pub struct PsArgs {
    /// How to answer
    ///
    /// JSON has more: identity, limits, class, reversals, memory that came back by page reporting.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// The manager itself: its host, sources, lease, journal, and what it costs
    #[arg(long)]
    pub status: bool,
    /// The levers on the host's memory: what each gained and cost, and what page-out did with each
    /// guest
    ///
    /// In MiB. Page reporting and the balloon give what is free in a guest; page-out hands the
    /// memory of guests that sleep to the host's swap, where it is compressed or written to a
    /// disk, and what a guest touches comes back by itself; KSM keeps equal pages once. GAINED is
    /// what the host has or had of it, IN SWAP what compressed memory grew by for it, BACK what
    /// came back. A guest's working set is what it held a minute after it was paged out.
    #[arg(long, conflicts_with_all = ["status", "farm"])]
    pub levers: bool,
    /// The guests of `pinhead up FARM.toml` as it sees them; of this farm, if a name or a process
    /// id says which
    ///
    /// Without `--farm` a farm shows the guests that no manager has: all where none runs, else
    /// those that are parked on disk or have ended. In MiB: what a guest's processes take of the
    /// host's memory, what of that is its own with shared pages counted in parts, and what it was
    /// started with. A guest is `starting` until its ports have answered.
    #[arg(long, value_name = "NAME", num_args = 0..=1, conflicts_with_all = ["status", "socket"])]
    pub farm: Option<Option<String>>,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// Where the manager listens.
#[derive(Debug, Args)]
pub struct SocketArg {
    /// The manager's socket, if not the usual one
    ///
    /// That is $XDG_RUNTIME_DIR/pinhead/host.sock, and for root or where that is not there
    /// /run/pinhead/host.sock, or what the default file of settings says.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// What `pinhead set` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// It never gets less
    Min,
    /// It never gets more
    Max,
    /// Its weight against other guests
    Shares,
    /// It has just this much
    Pin,
    /// It is not managed, and gets its maximum
    Release,
    /// It is managed again
    Manage,
}

/// `pinhead set`
#[derive(Debug, Args)]
pub struct SetArgs {
    /// A guest: its name, its UUID, or the path of its monitor
    pub guest: String,
    /// What to change, until the guest or the manager ends
    #[arg(value_enum)]
    pub what: What,
    /// A size ("512 MiB", "25%"), or a number of shares
    pub value: Option<String>,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// `pinhead reserve`
#[derive(Debug, Args)]
pub struct ReserveArgs {
    /// How much, in MiB
    #[arg(required_unless_present = "release")]
    pub mib: Option<u64>,
    /// How long to wait for it, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub timeout: u64,
    /// How long to hold it, in seconds, once it is free
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub hold: u64,
    /// Let this reservation go
    #[arg(long, value_name = "NUMBER", conflicts_with = "mib")]
    pub release: Option<u64>,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// Lists the guests, or reports on the manager.
pub fn ps(args: &PsArgs) -> Result<String, Error> {
    if let Some(farm) = &args.farm {
        return crate::farm_cmds::ps(farm.as_deref(), args.format);
    }
    let ask = match (args.status, args.levers) {
        (true, _) => Ask::Status,
        (_, true) => Ask::Levers,
        _ => Ask::Ps,
    };
    let answered = match ask_manager(&args.socket, &ask) {
        // Without a manager the farms still list their guests.
        Err(error) if ask == Ask::Ps && args.socket.socket.is_none() => {
            let shown = crate::farm_cmds::ps(None, args.format);
            return shown.map_err(|_| error);
        }
        answered => answered?,
    };
    match (answered, args.format) {
        (Answer::Ps(answer), Format::Json) => {
            let beside = beside(args, &answer)?;
            json(&Everything { answer, beside })
        }
        (Answer::Status(answer), Format::Json) => json(&answer),
        (Answer::Levers(answer), Format::Json) => json(&answer),
        (Answer::Ps(answer), Format::Text) => {
            let beside = beside(args, &answer)?.map(Beside::text).unwrap_or_default();
            Ok(ps::table(&answer) + &beside)
        }
        (Answer::Status(answer), Format::Text) => Ok(ps::status(&answer)),
        (Answer::Levers(answer), Format::Text) => Ok(levers::table(&answer)),
        _ => Err(unexpected()),
    }
}

/// A manager's guests, and the farms' guests that the manager does not have.
#[derive(Serialize)]
struct Everything {
    #[serde(flatten)]
    answer: Ps,
    #[serde(flatten)]
    beside: Option<Beside>,
}

/// Returns the farms' guests that the manager does not have. A manager named by its socket reports
/// only its own guests.
fn beside(args: &PsArgs, answer: &Ps) -> Result<Option<Beside>, Error> {
    match args.socket.socket {
        Some(_) => Ok(None),
        None => crate::farm_cmds::beside(answer).map(Some),
    }
}

/// Changes what a guest is entitled to.
pub fn set(args: &SetArgs) -> Result<String, Error> {
    let change = change(args.what, args.value.as_deref())?;
    let ask = Ask::Set { guest: args.guest.clone(), change };
    let Answer::Set(now) = ask_manager(&args.socket, &ask)? else { return Err(unexpected()) };
    let mib = |bytes: u64| bytes >> 20;
    let mode = match now.pin_bytes {
        Some(size) => format!("pinned to {} MiB", mib(size)),
        None => now.mode.to_string(),
    };
    Ok(format!(
        "{}: {}, min {} MiB, max {} MiB, shares {}\n",
        base::plain(&now.guest, 60),
        mode,
        mib(now.min_bytes),
        mib(now.max_bytes),
        now.shares
    ))
}

fn change(what: What, value: Option<&str>) -> Result<Change, Error> {
    let word = what.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
    let missing = || Error::Message(format!("`{word}` needs a value, such as {}", example(what)));
    let size = || -> Result<Share, Error> {
        Share::parse(value.ok_or_else(missing)?)
            .map_err(|bad| Error::Message(format!("`{word}` {}", bad.help)))
    };
    match what {
        What::Release | What::Manage if value.is_some() => {
            Err(Error::Message(format!("`{word}` takes no value")))
        }
        What::Release => Ok(Change::Release),
        What::Manage => Ok(Change::Manage),
        What::Min => size().map(Change::Min),
        What::Max => size().map(Change::Max),
        What::Pin => size().map(Change::Pin),
        What::Shares => {
            let number = value.ok_or_else(missing)?.parse::<u32>().ok().filter(|n| *n > 0);
            let wrong = || Error::Message("`shares` is a whole number from 1 on".into());
            number.map(Change::Shares).ok_or_else(wrong)
        }
    }
}

fn example(what: What) -> &'static str {
    match what {
        What::Shares => "200",
        _ => "\"512 MiB\" or \"25%\"",
    }
}

/// Requests free memory for a guest that is about to start, and waits for it.
pub fn reserve(args: &ReserveArgs) -> Result<String, Error> {
    if let Some(reservation) = args.release {
        return match ask_manager(&args.socket, &Ask::Unreserve { reservation })? {
            Answer::Unreserve {} => Ok(format!("reservation {reservation} is let go\n")),
            _ => Err(unexpected()),
        };
    }
    let ask = Ask::Reserve {
        mib: args.mib.unwrap_or_default(),
        timeout_ms: args.timeout.saturating_mul(1000),
        hold_ms: args.hold.saturating_mul(1000),
    };
    match ask_manager(&args.socket, &ask)? {
        Answer::Reserve(held) => Ok(format!(
            "{} MiB are free and held for {} s (reservation {})\n",
            held.mib,
            held.hold_ms / 1000,
            held.reservation
        )),
        _ => Err(unexpected()),
    }
}

/// Returns the input values of the manager's last passes for a guest.
pub fn inputs(guest: &str, socket: Option<&Path>) -> Result<Inputs, Error> {
    let socket = SocketArg { socket: socket.map(Path::to_path_buf) };
    match ask_manager(&socket, &Ask::Inputs { guest: guest.to_owned() })? {
        Answer::Inputs(inputs) => Ok(inputs),
        _ => Err(unexpected()),
    }
}

pub(crate) fn ask_manager(socket: &SocketArg, ask: &Ask) -> Result<Answer, Error> {
    control::ask_manager(socket.socket.as_deref(), ask).map_err(Error::Control)
}

pub(crate) fn unexpected() -> Error {
    Error::Message("The manager's answer is to another question: is it of another version?".into())
}
