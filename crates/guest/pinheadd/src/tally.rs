//! Observations of the daemon in its last sample, and actions since the start of the daemon.

use crate::readings::Readings;
use base::Pages;
use wire::Status;

/// Numbers of changes since the start of the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    pub plugs: u32,
    pub unplugs: u32,
    /// Number of times that the pool grew.
    pub grows: u32,
    /// Number of times that the pool shrank, also by the kernel.
    pub shrinks: u32,
}

/// Observations and actions that scripts in the guest may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub cpus_online: u32,
    pub cpus_present: u32,
    pub pool: Pages,
    pub actions: Actions,
    /// True if the guest's counters no longer change.
    pub settled: bool,
    /// Last change and its reason.
    pub reason: String,
}

/// All observations and actions.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of samples so far.
    pub looks: u32,
    /// The part for scripts in the guest.
    pub summary: Summary,
    /// The part for the host only.
    pub readings: Readings,
}

impl Tally {
    /// Returns the status for the host.
    pub fn status(&self) -> Status {
        let Summary { cpus_online, cpus_present, pool, actions, settled, ref reason } =
            self.summary;
        let Readings { mem_total_kib, mem_free_kib, mem_available_kib, .. } = self.readings;
        let Readings { busy_ticks, idle_ticks, steal_ticks, .. } = self.readings;
        let Actions { plugs, unplugs, grows, shrinks } = actions;
        Status {
            sequence: self.looks,
            cpus_online,
            cpus_present,
            pool_pages: pool.0,
            mem_total_kib,
            mem_free_kib,
            mem_available_kib,
            busy_ticks,
            idle_ticks,
            steal_ticks,
            plugs,
            unplugs,
            grows,
            shrinks,
            settled,
            reason: reason.clone(),
        }
    }
}
