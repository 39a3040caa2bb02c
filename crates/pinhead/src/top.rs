//! `pinhead top`: the manager's current or recorded values, on a terminal.

use crate::Error;
use crate::manage::{SocketArg, ask_manager};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use top::{Options, Shown, Wanted};

/// Which screen comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScreenArg {
    /// The host
    Overview,
    /// All guests
    Guests,
    /// The host's memory and what is below it
    Memory,
    /// What was decided
    Decisions,
}

/// `pinhead top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Which screen comes first
    #[arg(long, value_enum, default_value = "overview")]
    pub screen: ScreenArg,
    /// Only guests whose name or class is of this pattern, such as 'LNX1*'
    #[arg(long, value_name = "PATTERN")]
    pub class: Option<String>,
    /// Write one screen down, and end
    #[arg(long)]
    pub once: bool,
    /// End after so many seconds; of a recording, write so many steps down
    #[arg(long = "for", value_name = "SECONDS")]
    pub seconds: Option<u64>,
    /// Show the past instead: a directory of recordings, or a day's file in it
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub replay: Option<PathBuf>,
    /// From when: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"; the end of the recording if
    /// it is not given
    ///
    /// A time that is not recorded is an error that says which times are.
    #[arg(long, value_name = "TIME", requires = "replay")]
    pub at: Option<String>,
    /// How long a step of the past is: whole minutes, or 1 to 59 where seconds are left
    #[arg(long, value_name = "SECONDS", requires = "replay", default_value_t = 60)]
    pub step: u32,
    /// The journal of the past, if it is not beside the recordings
    #[arg(long, value_name = "PATH", requires = "replay")]
    pub journal: Option<PathBuf>,
    /// Nothing stands out but by its characters: also with NO_COLOR set, or TERM=dumb
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
