//! The daemon's observations at its last look, and its actions since its start.

use crate::readings::Readings;
use counters::Pages;
use wire::Status;

/// Numbers of changes by the daemon, and by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// CPUs plugged.
    pub plugs: u32,
    /// CPUs unplugged.
    pub unplugs: u32,
    /// Times the pool grew.
    pub grows: u32,
    /// Times the pool shrank.
    pub shrinks: u32,
}

/// The part that the guest's scripts are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// CPUs online.
    pub cpus_online: u32,
    /// CPUs present.
    pub cpus_present: u32,
    /// The size of the pool.
    pub pool: Pages,
    /// The numbers of changes.
    pub actions: Actions,
    /// True if nothing changes any more.
    pub settled: bool,
    /// The last change and its reason.
    pub reason: String,
}

/// All observations and actions.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Looks so far.
    pub looks: u32,
    /// The part that scripts are shown.
    pub summary: Summary,
    /// The part that only the host gets.
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
