//! Observations of the daemon in its last sample, and its actions since its start.

use crate::readings::Readings;
use base::Pages;
use wire::Status;

/// Numbers of changes made by the daemon and by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Number of CPUs plugged.
    pub plugs: u32,
    /// Number of CPUs unplugged.
    pub unplugs: u32,
    /// Number of times that the pool grew.
    pub grows: u32,
    /// Number of times that the pool shrank.
    pub shrinks: u32,
}

/// Part of the observations for scripts in the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of CPUs online.
    pub cpus_online: u32,
    /// Number of CPUs present.
    pub cpus_present: u32,
    /// Size of the pool.
    pub pool: Pages,
    /// Numbers of changes.
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
