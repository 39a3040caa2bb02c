//! Arguments of `pinhead zvm`.

use crate::quantities::span;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `pinhead zvm`
#[derive(Debug, Args)]
pub struct ZvmArgs {
    #[command(subcommand)]
    pub command: ZvmCommand,
}

/// Actions on data of z/VM.
#[derive(Debug, Subcommand)]
pub enum ZvmCommand {
    /// Convert MONWRITE files to recordings
    Import(ImportArgs),
    /// Record the data that z/VM's monitor sends to this guest
    Read(ReadArgs),
    /// Convert recordings to a MONWRITE file
    Export(ExportArgs),
    /// Record the hypervisor's counters of guests or partitions
    Hypfs(HypfsArgs),
}

/// `pinhead zvm import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// MONWRITE files, oldest first
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// New directory for the recordings
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
}

/// `pinhead zvm export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// MONWRITE file to write
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Directory of recordings instead of the manager's
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Start time; default: the beginning
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// End time; default: now, or the end of the recordings in --dir
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
}

/// `pinhead zvm read`
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// Monitor device
    #[arg(long, value_name = "PATH", default_value = "/dev/monreader")]
    pub device: PathBuf,
    /// Directory for the recordings
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
}

/// `pinhead zvm hypfs`
#[derive(Debug, Args)]
pub struct HypfsArgs {
    /// Directory of the hypervisor's counters: diag_2fc, diag_204, or a text tree
    #[arg(long, value_name = "DIR", default_value = "/sys/kernel/debug/s390_hypfs")]
    pub from: PathBuf,
    /// Directory for the recordings
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Interval between two readings
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = span)]
    pub every: String,
    /// Number of readings; default: unlimited
    #[arg(long, value_name = "COUNT")]
    pub times: Option<u64>,
}
