//! What the monitor has told of a user: by CP, and by the Linux in it.

use crate::inside::Inside;
use base::PAGE_BYTES;
use model::{GuestField as G, Row};
use std::collections::BTreeMap;
use zmon::domain::ActivityAtEnd;
use zmon::ns_of_ticks;

/// A user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guest {
    /// Its virtual CPUs, each as of its last transaction.
    cpus: BTreeMap<u16, ActivityAtEnd>,
    pub(crate) inside: Inside,
    /// Intervals since something was told of it.
    pub(crate) silent: u32,
}

impl Guest {
    pub(crate) fn take(&mut self, activity: ActivityAtEnd) {
        self.cpus.insert(activity.cpu, activity);
    }

    pub(crate) fn row(&self) -> Row<G> {
        let mut row = Row::default();
        let time = |of: fn(&ActivityAtEnd) -> u64| {
            let times = self.cpus.values().map(|cpu| ns_of_ticks(of(cpu)));
            times.reduce(u64::saturating_add)
        };
        let sum = |of: fn(&ActivityAtEnd) -> u32| {
            self.cpus.values().map(|cpu| u64::from(of(cpu))).reduce(u64::saturating_add)
        };
        // A user's memory is told with each of its CPUs.
        let pages = |of: fn(&ActivityAtEnd) -> u32| {
            let most = self.cpus.values().map(of).max();
            most.map(|pages| u64::from(pages) * PAGE_BYTES)
        };
        row.extend([
            (G::Vcpus, Some(self.cpus.len() as u64).filter(|count| *count > 0)),
            (G::VcpuRun, time(|cpu| cpu.total_time)),
            (G::VcpuGuest, time(|cpu| cpu.virtual_time)),
            // CP's work for it is a part of its total time.
            (G::OtherRun, time(|_| 0)),
            (G::Resident, pages(|cpu| cpu.resident)),
            (G::Private, pages(|cpu| cpu.resident)),
            (G::Locked, pages(|cpu| cpu.locked)),
            // CP's projection.
            (G::OwnWorkingSet, pages(|cpu| cpu.working_set)),
            (G::Swapped, pages(|cpu| cpu.slots)),
            (G::MajorFaults, sum(|cpu| cpu.page_waits)),
            (G::GroupSwapIn, sum(|cpu| cpu.pages_read)),
            (G::GroupSwapOut, sum(|cpu| cpu.pages_written)),
        ]);
        self.inside.put(&mut row);
        row
    }
}
