//! Leftovers of killed farms, removed before another farm starts: changed settings of the host, and
//! directories of sockets.

use crate::tell::tell;
use farm::rundir::{self, RunDir};
use std::io;

/// Creates this process's directory, after removing leftovers. The directory of a farm contains the
/// farm's name.
pub(super) fn run_dir(farm: Option<&str>) -> io::Result<RunDir> {
    restore_host();
    RunDir::create(farm)
}

/// Removes leftovers, for a process that needs no directory of its own.
pub(crate) fn sweep_all() {
    restore_host();
    rundir::sweep_all();
}

/// Restores host settings that a killed process had changed: swap, limits, KSM.
fn restore_host() {
    // Only root can have changed these settings.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let faults: Vec<String> = match farm::tiers::restore_left() {
        Ok(left) => left.into_iter().flat_map(|left| left.faults).collect(),
        Err(error) => vec![base::chain(&error)],
    };
    faults.iter().for_each(|fault| tell("pinhead", fault));
}
