//! `pinhead top`: the manager's current or recorded values on a terminal.

use crate::farm_cmds::{self, ConsoleArgs, LogsArgs, ParkArgs};
use crate::manage::{self, SetArgs, SocketArg, ask_manager};
use crate::why::WhyArgs;
use crate::{Error, quantities, why};
use base::duration::parse_seconds;
use clap::{Args, ValueEnum};
use manager::control::{Answer, Ask};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use top::{Action, Acts, Options, Order, Shown, Target, Wanted};

/// First screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScreenArg {
    /// The host
    Overview,
    /// All guests
    Guests,
    /// The host's memory and the tiers below it
    Memory,
    /// Decisions
    Decisions,
}

/// `pinhead top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// First screen to show
    #[arg(long, value_enum, default_value = "overview")]
    pub screen: ScreenArg,
    /// Only guests with a matching name or class, such as 'LNX1*'
    #[arg(long, value_name = "PATTERN")]
    pub class: Option<String>,
    /// Print one screen and exit
    #[arg(long)]
    pub once: bool,
    /// Exit after this time; a number alone means seconds, and with --replay the number of steps
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_seconds)]
    pub seconds: Option<u64>,
    /// Show the past: a recordings directory, or a day's file in it
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub replay: Option<PathBuf>,
    /// Start time: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"
    ///
    /// The default is the end of the recording. If the time was not recorded, the error names the
    /// recorded times.
    #[arg(long, value_name = "TIME", requires = "replay")]
    pub at: Option<String>,
    /// Length of a step of the past, such as 1s or 5m; a number alone means seconds
    ///
    /// The length is whole minutes, or 1 to 59 seconds while samples of single seconds exist.
    #[arg(long, value_name = "SPAN", requires = "replay", default_value = "60s",
          value_parser = quantities::seconds::<u32>(0..=u32::MAX.into()))]
    pub step: u32,
    /// Journal file, if it is not next to the recordings
    #[arg(long, value_name = "PATH", requires = "replay")]
    pub journal: Option<PathBuf>,
    /// Disable colour, as NO_COLOR or TERM=dumb also do
    #[arg(long)]
    pub no_color: bool,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// Shows the screens until the user quits.
pub fn run(args: TopArgs) -> Result<(), Error> {
    let options = Options {
        shown: match args.screen {
            ScreenArg::Overview => Shown::Overview,
            ScreenArg::Guests => Shown::Guests,
            ScreenArg::Memory => Shown::Memory,
            ScreenArg::Decisions => Shown::Decisions,
        },
        filter: args.class.unwrap_or_default(),
        once: args.once,
        seconds: args.seconds,
        no_color: args.no_color,
    };
    let shown = match &args.replay {
        Some(path) => {
            let (at, journal) = (args.at.as_deref(), args.journal.as_deref());
            top::replay(&Wanted { path, at, step_s: args.step, journal }, &options)
        }
        None => {
            let socket = args.socket.socket.clone();
            let acts: Acts = Arc::new(move |order| Ok(act(order, socket.as_deref())?));
            let manager = Box::new(move |ask: &Ask| Ok(ask_manager(&args.socket, ask)?));
            top::live(manager, acts, &options)
        }
    };
    shown.map_err(Error::Top)
}

/// Carries out an action on a guest, by the function of the corresponding command.
fn act(order: &Order, socket: Option<&Path>) -> Result<String, Error> {
    let guest = &order.guest;
    match &order.action {
        Action::Console => farm_cmds::console(&parsed::<ConsoleArgs>(["--", &called(guest)])?),
        Action::Logs => farm_cmds::logs(&parsed::<LogsArgs>(["--", &called(guest)])?),
        Action::Why => why::run(&parsed::<WhyArgs>(why_words(guest, socket))?),
        Action::Park => farm_cmds::park(&parsed::<ParkArgs>(park_words(guest, socket))?),
        Action::Wake => farm_cmds::wake(&parsed::<ParkArgs>(park_words(guest, socket))?),
        Action::Pin(size) => {
            manage::set(&parsed::<SetArgs>(set_words(guest, socket, &["pin", size]))?)
        }
        Action::Manage => manage::set(&parsed::<SetArgs>(set_words(guest, socket, &["manage"]))?),
    }
}

/// Parses the arguments of a command. All other options get their defaults.
fn parsed<T: Args>(words: impl IntoIterator<Item = impl Into<String>>) -> Result<T, Error> {
    let command = T::augment_args(clap::Command::new("pinhead").no_binary_name(true));
    let matches = command.try_get_matches_from(words.into_iter().map(Into::into));
    let args = matches.and_then(|matches| T::from_arg_matches(&matches));
    args.map_err(|error| Error::step("The action is invalid", error))
}

fn why_words(guest: &Target, socket: Option<&Path>) -> Vec<String> {
    let asked = ask_manager(&SocketArg { socket: socket.map(Path::to_path_buf) }, &Ask::Status);
    // Without an answer, the default journal is read.
    let journal = match asked {
        Ok(Answer::Status(status)) => status.journal.path,
        _ => None,
    };
    let journal = journal.map(|path| ["--journal".to_owned(), path]).into_iter().flatten();
    journal.chain(["--".to_owned(), known(guest)]).collect()
}

/// Returns the arguments of `pinhead park` and `pinhead wake`. A farm parks its guests, and the
/// manager parks all other guests.
fn park_words(guest: &Target, socket: Option<&Path>) -> Vec<String> {
    match of_farm(guest) {
        Some(name) => vec!["--".to_owned(), name],
        None => set_words(guest, socket, &[]),
    }
}

fn set_words(guest: &Target, socket: Option<&Path>, change: &[&str]) -> Vec<String> {
    let socket = socket.map(|path| ["--socket".to_owned(), path.display().to_string()]);
    let change = change.iter().map(|word| (*word).to_owned());
    let words = socket.into_iter().flatten().chain(["--".to_owned(), known(guest)]);
    words.chain(change).collect()
}

/// Returns the name by which a farm's commands find the guest.
fn called(guest: &Target) -> String {
    of_farm(guest).unwrap_or_else(|| guest.name.clone())
}

/// Returns PROCESS/GUEST for a guest of `pinhead up`. The directory of that process has the
/// guest's monitor.
fn of_farm(guest: &Target) -> Option<String> {
    let names: Vec<&str> = guest.source.split('/').collect();
    let at = names.windows(2).position(|names| names == ["pinhead", "up"])?;
    let process: u32 = names.get(at + 2)?.parse().ok()?;
    Some(format!("{process}/{}", guest.name))
}

/// Returns the UUID, which distinguishes the guest from its namesakes, or else the name.
fn known(guest: &Target) -> String {
    if guest.uuid.is_empty() { guest.name.clone() } else { guest.uuid.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(source: &str) -> Target {
        Target { name: "-g1".into(), uuid: "0-1".into(), source: source.into() }
    }

    #[test]
    fn guest_of_a_farm_is_addressed_by_its_process() {
        let farm = guest("/run/user/7/pinhead/up/18027/g1.qmp");
        assert_eq!(called(&farm), "18027/-g1");
        assert_eq!(park_words(&farm, Some(Path::new("/s"))), ["--", "18027/-g1"]);
        for other in ["libvirt", "/run/pinhead/up/x/g1.qmp", "/run/up/7/g1", "/pinhead/up"] {
            assert_eq!(called(&guest(other)), "-g1", "{other}");
        }
    }

    #[test]
    fn actions_use_the_arguments_of_their_commands() {
        let libvirt = guest("libvirt");
        let words = park_words(&libvirt, Some(Path::new("/s")));
        assert_eq!(words, ["--socket", "/s", "--", "0-1"]);
        let args: ParkArgs = parsed(words).unwrap();
        assert_eq!((args.guests, args.socket.socket), (vec!["0-1".into()], Some("/s".into())));
        let args: SetArgs = parsed(set_words(&libvirt, None, &["pin", "1 GiB"])).unwrap();
        let pin = ("0-1", manage::What::Pin, Some("1 GiB"));
        assert_eq!((args.guest.as_str(), args.what, args.value.as_deref()), pin);
        let args: ConsoleArgs = parsed(["--", &called(&libvirt)]).unwrap();
        assert_eq!(args.guest, "-g1", "a name is no option");
        assert!(parsed::<LogsArgs>(["--nothing"]).is_err());
    }
}
