//! Monitor data about a user, from CP and from the Linux in it.

use crate::growth::Growth;
use crate::inside::Inside;
use base::PAGE_BYTES;
use model::{GuestField as G, Row};
use std::collections::BTreeMap;
use zmon::domain::ActivityAtEnd;
use zmon::ns_of_ticks;

#[derive(Clone, Debug, Default)]
pub(crate) struct Guest {
    /// Virtual CPUs, each as of its last transaction.
    cpus: BTreeMap<u16, ActivityAtEnd>,
    total: Growth,
    own: Growth,
    page_waits: Growth,
    read: Growth,
    written: Growth,
    pub(crate) inside: Inside,
    /// Intervals since the last data of the user.
    pub(crate) silent: u32,
}

impl Guest {
    pub(crate) fn take(&mut self, activity: ActivityAtEnd) {
        let cpu = activity.cpu.into();
        self.total.take(cpu, activity.total_time);
        self.own.take(cpu, activity.virtual_time);
        self.page_waits.take(cpu, activity.page_waits.into());
        self.read.take(cpu, activity.pages_read.into());
        self.written.take(cpu, activity.pages_written.into());
        self.cpus.insert(activity.cpu, activity);
    }

    pub(crate) fn row(&self) -> Row<G> {
        let mut row = Row::default();
        let time = |of: &Growth| of.sum().map(ns_of_ticks);
        // The record of each CPU contains the memory of the whole user.
        let pages = |of: fn(&ActivityAtEnd) -> u32| {
            let most = self.cpus.values().map(of).max();
            most.map(|pages| u64::from(pages) * PAGE_BYTES)
        };
        row.extend([
            (G::Vcpus, Some(self.cpus.len() as u64).filter(|count| *count > 0)),
            (G::VcpuRun, time(&self.total)),
            (G::VcpuGuest, time(&self.own)),
            // The total time already includes CP's work for the user.
            (G::OtherRun, self.total.sum().map(|_| 0)),
            (G::Resident, pages(|cpu| cpu.resident)),
            (G::Locked, pages(|cpu| cpu.locked)),
            // The working set that CP projects.
            (G::OwnWorkingSet, pages(|cpu| cpu.working_set)),
            (G::Swapped, pages(|cpu| cpu.slots)),
            (G::MajorFaults, self.page_waits.sum()),
            (G::GroupSwapIn, self.read.sum()),
            (G::GroupSwapOut, self.written.sum()),
        ]);
        self.inside.put(&mut row);
        row
    }
}
