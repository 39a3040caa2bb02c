//! `pinhead top`: the manager's current or recorded values on a terminal.

use crate::manage::{SocketArg, ask_manager};
use crate::{Error, quantities};
use base::duration::parse_seconds;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use top::{Options, Shown, Wanted};

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
    /// Exit after this time, in seconds if without unit; with --replay, print this many steps
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
        None => top::live(Box::new(move |ask| Ok(ask_manager(&args.socket, ask)?)), &options),
    };
    shown.map_err(Error::Top)
}
