//! `pinhead host`, and the commands that query the manager: `ps`, `set`, `reserve`.

// Macros that print would panic without a reader, but the manager must keep running.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod check;
mod levers;
pub(crate) mod ps;
mod run;

pub use check::check;
pub use run::{keep, run};

use crate::args::Format;
use crate::escape::json;
use crate::farm_cmds::Beside;
use crate::listing::ListingArgs;
use crate::terminal;
use crate::waiting::Task;
use crate::why::DiffArgs;
use crate::{Error, ManageError};
use base::duration::parse_seconds;
use base::parse_mib;
use clap::{Args, Subcommand, ValueEnum};
use manager::config::{NO_BUDGET, Share, is_no_budget};
use manager::control::{self, Answer, Ask, Change, Inputs, Ps};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `pinhead host`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HostArgs {
    /// Action instead of managing
    #[command(subcommand)]
    pub command: Option<HostCommand>,
    /// Settings file instead of /etc/pinhead/host.toml
    ///
    /// All keys are optional, and the default file may be missing.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Memory that all guests may use together, such as 480M or 50%
    ///
    /// This option overrides `[host] budget` in the settings.
    #[arg(long, value_name = "SIZE", value_parser = budget)]
    pub budget: Option<Share>,
    /// Decide and write the decisions to the journal, but change nothing
    ///
    /// Guests of `pinhead up` stay under the control of `pinhead up`. If `pinhead up` changes a
    /// guest's balloon, the manager ignores this guest and reports this. At its end, the manager
    /// reports the number and the size of the changes that it would have made.
    #[arg(long)]
    pub dry_run: bool,
    /// Check the settings, print the resulting settings, and exit
    ///
    /// Keys with default values are printed as comments. Nothing is started or changed. An error is
    /// printed with its line, and the exit status is then 2.
    #[arg(long, conflicts_with_all = ["dry_run", "seconds"])]
    pub check: bool,
    /// Exit after this time, such as 90s or 10m; a number alone means seconds
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_seconds)]
    pub seconds: Option<u64>,
}

/// Actions instead of managing.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Show the differences between the active and the shadow policy
    Diff(DiffArgs),
}

/// `pinhead ps`
#[derive(Debug, Args)]
pub struct PsArgs {
    #[command(flatten)]
    pub(crate) listing: ListingArgs,
    /// Output format
    ///
    /// JSON also contains identity, limits, class, reversals, and memory that page reporting
    /// returned.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Show the manager itself: host, sources, lease, journal and overhead
    #[arg(long, conflicts_with_all = ["guests", "columns", "sort"])]
    pub status: bool,
    /// Show the gain and cost of each lever, and the page-out of each guest
    ///
    /// A lever is a mechanism that gains memory for the host. Page reporting and the balloon return
    /// memory that is free in a guest. Page-out moves memory of guests to the host's swap, and a
    /// page comes back when the guest uses it. KSM keeps one copy of equal pages. Sizes are in MiB.
    /// GAINED is the present gain for KSM and the balloon, and the gain since the manager's start
    /// for page reporting and page-out. IN SWAP is the compressed size of paged-out memory, and
    /// BACK is paged-out memory that came back. WORKING SET is a guest's resident memory one minute
    /// after its page-out.
    #[arg(long, conflicts_with_all = ["status", "farm", "guests", "columns", "sort"])]
    pub levers: bool,
    /// Show the guests of all farms, or of one farm, as the farm sees them
    ///
    /// NAME is the farm's name or process id. Sizes are in MiB. RSS is the host memory of the
    /// guest's processes. PSS is the same, but divides a shared page among the processes that share
    /// it. OF is the configured size. A guest is `starting` until its ports have answered. Without
    /// `--farm`, the table shows a farm's guest only if no manager has the guest: no manager runs,
    /// or the guest is parked or has ended.
    #[arg(long, value_name = "NAME", num_args = 0..=1, conflicts_with_all = ["status", "socket"])]
    pub farm: Option<Option<String>>,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// Socket of the manager.
#[derive(Debug, Args)]
pub struct SocketArg {
    /// Manager's socket instead of the default
    ///
    /// The default is $XDG_RUNTIME_DIR/pinhead/host.sock. For root, or if that socket is missing,
    /// the default is /run/pinhead/host.sock. The default settings file may name another socket.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// Changes of `pinhead set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Lower limit of the guest's memory
    Min,
    /// Upper limit of the guest's memory
    Max,
    /// Weight against other guests
    Shares,
    /// Fixed size of the guest's memory
    Pin,
    /// Stop managing the guest, and set its memory to the maximum
    Release,
    /// Manage a released guest again
    Manage,
}

/// `pinhead set`
#[derive(Debug, Args)]
pub struct SetArgs {
    /// Guest name, UUID, or path of its monitor
    pub guest: String,
    /// Setting to change, until the guest or the manager ends
    #[arg(value_enum)]
    pub what: What,
    /// Size (512M, 25%) or number of shares
    pub value: Option<String>,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// `pinhead reserve`
#[derive(Debug, Args)]
pub struct ReserveArgs {
    /// Memory to reserve, such as 512M; a number alone means MiB
    #[arg(value_name = "SIZE", required_unless_present = "release", value_parser = parse_mib)]
    pub mib: Option<u64>,
    /// Time to wait for the memory; a number alone means seconds
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = parse_seconds)]
    pub timeout: u64,
    /// Time to hold the memory once it is free; a number alone means seconds
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = parse_seconds)]
    pub hold: u64,
    /// Cancel this reservation
    #[arg(long, value_name = "NUMBER", conflicts_with = "mib")]
    pub release: Option<u64>,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

fn budget(text: &str) -> Result<Share, String> {
    let budget = Share::parse(text).map_err(|bad| bad.to_string())?;
    let (wrong, help) = NO_BUDGET;
    if is_no_budget(budget) { Err(format!("{wrong}: {help}")) } else { Ok(budget) }
}

/// Lists the guests, or reports on the manager.
pub fn ps(args: &PsArgs) -> Result<String, Error> {
    let (listing, width) = (&args.listing, terminal::width(std::io::stdout()));
    if args.format == Format::Json {
        listing.check_text()?;
    }
    if let Some(farm) = &args.farm {
        return crate::farm_cmds::ps(farm.as_deref(), args.format, listing, width);
    }
    let ask = match (args.status, args.levers) {
        (true, _) => Ask::Status,
        (_, true) => Ask::Levers,
        _ => Ask::Ps,
    };
    let answered = match ask_manager(&args.socket, &ask) {
        // Without a manager, the farms still list their guests.
        Err(error) if ask == Ask::Ps && args.socket.socket.is_none() => {
            if !crate::farm_cmds::is_any() {
                return Err(error);
            }
            return crate::farm_cmds::ps(None, args.format, listing, width);
        }
        answered => answered?,
    };
    match (answered, args.format) {
        (Answer::Ps(answer), format) => list(answer, args, format, width),
        (Answer::Status(answer), Format::Json) => json(&answer),
        (Answer::Levers(answer), Format::Json) => json(&answer),
        (Answer::Status(answer), Format::Text) => Ok(ps::status(&answer, width)),
        (Answer::Levers(answer), Format::Text) => Ok(levers::show(&answer, width)),
        _ => Err(unexpected()),
    }
}

fn list(
    mut answer: Ps,
    args: &PsArgs,
    format: Format,
    width: Option<usize>,
) -> Result<String, Error> {
    let listing = &args.listing;
    let mut beside = beside(args, &answer)?;
    let rows = answer.guests.iter().map(|guest| (guest.name.as_str(), guest.uuid.as_str()));
    listing.check_guests(rows.chain(beside.iter().flat_map(Beside::names)))?;
    answer.guests.retain(|guest| listing.takes(&guest.name, &guest.uuid));
    beside.iter_mut().for_each(|beside| beside.retain(listing));
    if format == Format::Json {
        return json(&Everything { answer, beside });
    }
    listing.check_columns(&ps::table(&answer))?;
    let beside = beside.map(|beside| beside.text(listing, width)).unwrap_or_default();
    Ok(ps::show(&answer, listing, width) + &beside)
}

#[derive(Serialize)]
struct Everything {
    #[serde(flatten)]
    answer: Ps,
    #[serde(flatten)]
    beside: Option<Beside>,
}

/// Returns guests of farms that the manager does not have. If the manager was named by its socket,
/// only its own guests are shown.
fn beside(args: &PsArgs, answer: &Ps) -> Result<Option<Beside>, Error> {
    match args.socket.socket {
        Some(_) => Ok(None),
        None => crate::farm_cmds::beside(answer).map(Some),
    }
}

/// Changes a guest's limits.
pub fn set(args: &SetArgs) -> Result<String, Error> {
    let change = change(args.what, args.value.as_deref())?;
    let ask = Ask::Set { guest: args.guest.clone(), change };
    let Answer::Set(now) = ask_manager(&args.socket, &ask)? else { return Err(unexpected()) };
    let mib = |bytes: u64| reports::mib(Some(bytes));
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
    let missing = || ManageError::NoValue { word: word.clone(), example: example(what) };
    let size = || -> Result<Share, Error> {
        let value = value.ok_or_else(missing)?;
        let wrong = |source| {
            let value = base::plain(value, 40);
            ManageError::NoSize { word: word.clone(), value, source }
        };
        Ok(Share::parse(value).map_err(wrong)?)
    };
    match what {
        What::Release | What::Manage if value.is_some() => {
            Err(ManageError::NeedlessValue { word }.into())
        }
        What::Release => Ok(Change::Release),
        What::Manage => Ok(Change::Manage),
        What::Min => size().map(Change::Min),
        What::Max => size().map(Change::Max),
        What::Pin => size().map(Change::Pin),
        What::Shares => {
            let number = value.ok_or_else(missing)?.parse::<u32>().ok().filter(|n| *n > 0);
            Ok(number.map(Change::Shares).ok_or(ManageError::NoShares)?)
        }
    }
}

fn example(what: What) -> &'static str {
    match what {
        What::Shares => "200",
        _ => "512M or 25%",
    }
}

/// Requests free memory for a guest that is about to start, and waits for this memory.
pub fn reserve(args: &ReserveArgs) -> Result<String, Error> {
    if let Some(reservation) = args.release {
        return match ask_manager(&args.socket, &Ask::Unreserve { reservation })? {
            Answer::Unreserve {} => Ok(format!("reservation {reservation} is cancelled\n")),
            _ => Err(unexpected()),
        };
    }
    let ask = Ask::Reserve {
        mib: args.mib.unwrap_or_default(),
        timeout_ms: args.timeout.saturating_mul(1000),
        hold_ms: args.hold.saturating_mul(1000),
    };
    let timeout = Duration::from_secs(args.timeout);
    let task = Task::within(format!("waiting for {} MiB", args.mib.unwrap_or_default()), timeout);
    let answered = ask_manager(&args.socket, &ask);
    drop(task);
    match answered? {
        Answer::Reserve(held) => Ok(format!(
            "{} MiB are reserved for {} s (reservation {})\n",
            held.mib,
            held.hold_ms / 1000,
            held.reservation
        )),
        _ => Err(unexpected()),
    }
}

/// Returns the input values for a guest in the manager's last passes.
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
    ManageError::OtherAnswer.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_of_a_guest_needs_a_unit() {
        let refused = |value| base::chain(&change(What::Pin, value).unwrap_err());
        let text = refused(Some("128"));
        assert!(text.starts_with("`pin` cannot be `128`: "), "{text}");
        assert!(text.contains("\"25%\"") && text.contains("\"256M\""), "{text}");
        assert!(refused(None).contains("512M or 25%"), "{}", refused(None));
        let size = |value| change(What::Pin, Some(value)).unwrap();
        assert_eq!(size("128M"), size("128 MiB"));
    }
}
