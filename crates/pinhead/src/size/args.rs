//! The arguments of `pinhead size`.

use crate::manage::SocketArg;
use clap::{Args, ValueEnum};
use settings::Share;
use std::path::PathBuf;

/// `pinhead size`
#[derive(Debug, Args)]
pub struct SizeArgs {
    /// Guests, by their names or patterns of them, such as 'web*'; all that were recorded if none
    /// is given
    pub guests: Vec<String>,
    /// From when: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"; three days before the end if it
    /// is not given
    ///
    /// A longer time is looked at by the quarter of an hour, and not by the minute.
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Until when; now if it is not given
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// A guest is to have what it needed in so many of its minutes
    #[arg(long, value_name = "PERCENT", default_value = "99.9%", value_parser = part)]
    pub percentile: u64,
    /// And so much of it more
    ///
    /// A guest whose peak has grown within the time gets as much as it grew, up to a half.
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = part)]
    pub headroom: u64,
    /// With less history than this nothing is said of a guest's size: 90m, 3h, 1d
    #[arg(long, value_name = "SPAN", default_value = "3h")]
    pub enough: String,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: SizeFormat,
    /// Say it as settings or as commands, or do it, instead
    ///
    /// Guests without enough history are left out.
    #[arg(long, value_enum, value_name = "HOW", conflicts_with = "format")]
    pub apply: Option<Apply>,
    /// The recordings, if not those that the manager makes by itself
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// How to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SizeFormat {
    /// For people
    Text,
    /// For spreadsheets: a row a guest, sizes in bytes
    Csv,
    /// For programs
    Json,
}

/// The form in which sizes are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Apply {
    /// Classes for the manager's file of settings
    Settings,
    /// Commands for guests of libvirt, which count from their next start
    Virsh,
    /// Set them in the manager that runs, until it ends
    Manager,
}

/// Parses a percentage, in thousandths.
fn part(text: &str) -> Result<u64, String> {
    let help = || "write a part from \"0%\" to \"100%\", at most to a tenth: \"99.5%\"".to_owned();
    match Share::parse(text) {
        Ok(Share::Permille(permille)) => Ok(permille),
        Ok(Share::Bytes(_)) | Err(_) => Err(help()),
    }
}
