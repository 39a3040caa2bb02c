//! `pinhead zvm`: recordings of z/VM's monitor and of the hypervisor's counters. The recordings
//! have the same form as recordings of KVM guests.
//!
//! ```text
//!   import FILE…   MONWRITE files ─► zmon::file ──┐
//!   read           /dev/monreader ─► zmon::stream ┴► zvm::Monitor ────┐
//!   hypfs          debugfs diag_2fc, diag_204 ──────► zvm::Hypervisor ┴► recordings
//!   export FILE    recordings ─► zvm::Exporter ─► zmon::file::Writer
//! ```

mod args;
mod export;
mod import;
mod live;
mod recording;

use crate::Error;
use args::ZvmCommand;

pub use args::ZvmArgs;

/// Runs a `pinhead zvm` command, and returns a message for the user.
pub fn run(args: &ZvmArgs) -> Result<String, Error> {
    match &args.command {
        ZvmCommand::Import(args) => import::run(args),
        ZvmCommand::Export(args) => export::run(args),
        ZvmCommand::Read(args) => live::read(args),
        ZvmCommand::Hypfs(args) => live::hypfs(args),
    }
}
