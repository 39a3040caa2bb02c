//! Arguments of `pinhead zvm`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `pinhead zvm`
#[derive(Debug, Args)]
pub struct ZvmArgs {
    #[command(subcommand)]
    pub command: ZvmCommand,
}

/// Where z/VM's data come from.
#[derive(Debug, Subcommand)]
pub enum ZvmCommand {
    /// Make recordings of MONWRITE files
    Import(ImportArgs),
    /// Record what z/VM's monitor sends to this guest
    Read(ReadArgs),
    /// Make a MONWRITE file of recordings
    Export(ExportArgs),
    /// Record guests or partitions as the hypervisor counts them
    Hypfs(HypfsArgs),
}

/// `pinhead zvm import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The files, in the order of their time
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// A directory that is not there yet, for the recordings
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
}

/// `pinhead zvm export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The file to be made
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The recordings, if not those that the manager makes by itself
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// From when; all of it without
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Until when
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
}

/// `pinhead zvm read`
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The device
    #[arg(long, value_name = "PATH", default_value = "/dev/monreader")]
    pub device: PathBuf,
    /// The directory of the recordings
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
}

/// `pinhead zvm hypfs`
#[derive(Debug, Args)]
pub struct HypfsArgs {
    /// Where the kernel has the hypervisor's counters: diag_2fc, diag_204, or a tree of texts
    #[arg(long, value_name = "DIR", default_value = "/sys/kernel/debug/s390_hypfs")]
    pub from: PathBuf,
    /// The directory of the recordings
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// How often they are read
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    pub every: String,
    /// End after so many times; for ever without it
    #[arg(long, value_name = "COUNT")]
    pub times: Option<u64>,
}
