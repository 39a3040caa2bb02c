//! The arguments of `pinhead size`.

use crate::manage::SocketArg;
use crate::quantities::{part, span};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `pinhead size`
#[derive(Debug, Args)]
pub struct SizeArgs {
    /// Names of guests or patterns, such as 'web*'; default: all recorded guests
    pub guests: Vec<String>,
    /// Start time: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"
    ///
    /// The default is three days before the end. A longer time is analysed in quarter hours instead
    /// of minutes.
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// End time; default: now, or the end of the recordings in --dir
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Share of the minutes in which the size covers the guest's need
    #[arg(long, value_name = "PERCENT", default_value = "99.9%", value_parser = part)]
    pub percentile: u64,
    /// Headroom that is added to the covered need, as a part of the need
    ///
    /// If a guest's peak has grown within the time, the headroom is at least this growth. Growth
    /// above 50% counts as 50%.
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = part)]
    pub headroom: u64,
    /// Minimum history for advice on a guest's size: 90m, 3h, 1d
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = span)]
    pub enough: String,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: SizeFormat,
    /// Print the sizes as settings or commands, or apply them
    ///
    /// Guests without enough history are left out.
    #[arg(long, value_enum, value_name = "HOW", conflicts_with = "format")]
    pub apply: Option<Apply>,
    /// Directory of recordings instead of the manager's
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SizeFormat {
    /// Human-readable text
    Text,
    /// For spreadsheets: a row for each guest, sizes in bytes
    Csv,
    /// Machine-readable JSON
    Json,
}

/// Form in which sizes are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Apply {
    /// Classes for the manager's settings file
    Settings,
    /// Commands for libvirt guests, effective from their next start
    Virsh,
    /// Set the sizes in the running manager; they apply until the manager ends
    Manager,
}
