//! The arguments of `pinhead fleet`.

use super::watch::WatchArgs;
use crate::args::Format;
use crate::quantities::span;
use clap::{Args, Subcommand};

/// `pinhead fleet`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub command: Option<FleetCommand>,
    /// Metrics server that hosts push to: http://127.0.0.1:8428
    #[arg(long, value_name = "URL", required = true)]
    pub from: Option<String>,
    /// Time span to analyse and simulate: 30m, 1h, 1d
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = span)]
    pub last: String,
    /// Maximum number of proposed moves; 0 for none
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub moves: usize,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Other actions on a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Poll hosts without pinhead through libvirt over ssh, and push their metrics
    Watch(WatchArgs),
}
