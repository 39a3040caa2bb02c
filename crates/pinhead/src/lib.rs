//! Commands of `pinhead`, as a library. `main` only parses and maps errors.

#![forbid(unsafe_code)]

pub mod args;
pub mod cache;
pub mod capacity;
mod cells;
pub mod check;
pub mod cli;
mod completions;
pub mod conform;
mod error;
pub mod escape;
pub mod explain;
pub mod farm_cmds;
pub mod fleet;
pub mod idle;
pub mod listing;
pub mod machine;
mod making;
pub mod manage;
pub mod names;
pub mod presets;
mod quantities;
pub mod record;
pub mod replay;
pub mod report;
pub mod rulesfile;
pub mod schema;
mod signals;
pub mod size;
pub mod sql;
mod tell;
pub mod terminal;
pub mod top;
pub mod tune;
pub mod up;
mod waiting;
pub mod web;
pub mod why;
pub mod zvm;

pub use error::{
    Error, FarmCommandError, FleetError, ManageError, RecordingsError, RulesError, SizeError,
    SnapshotFault, TimeError, UpError, ValueError, ZvmError,
};
