//! The sources of guests, and their problems.

use crate::control::SourceRow;
use crate::machine::Machine;
use hypervisor::{Event, HostMemory, Hypervisor, Owner};
use reactor::{PollSet, Ready};
use std::collections::BTreeSet;
use std::path::PathBuf;

pub(crate) struct Sources {
    sources: Vec<Box<dyn Hypervisor>>,
    /// Time of each source's next turn, as of the last wait. The time is stored, because a source
    /// checks all of its guests to compute it.
    due_ms: Vec<u64>,
}

impl Sources {
    pub(crate) fn new(sources: Vec<Box<dyn Hypervisor>>) -> Sources {
        Sources { sources, due_ms: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    pub(crate) fn get(&mut self, source: usize) -> Option<&mut (dyn Hypervisor + 'static)> {
        self.sources.get_mut(source).map(Box::as_mut)
    }

    /// Returns the time at which a turn is due even without an event. Called before each wait.
    pub(crate) fn next_ms(&mut self) -> u64 {
        self.due_ms.clear();
        self.due_ms.extend(self.sources.iter().map(|source| source.next_ms()));
        self.due_ms.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// Adds the sources' descriptors. Each source has its own key in the poll set, counted from
    /// `first`.
    pub(crate) fn fds<'a>(&'a self, first: u64, set: &mut PollSet<'a>) {
        for (source, owner) in self.sources.iter().zip(first..) {
            source.fds(set.owner(owner));
        }
    }

    /// Returns the events of a source that is ready or due. Called after the wait.
    pub(crate) fn turn(
        &mut self,
        source: usize,
        first: u64,
        ready: &Ready,
        now_ms: u64,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let own = ready.of(first + source as u64);
        let is_due = self.due_ms.get(source).is_none_or(|due_ms| now_ms >= *due_ms);
        if let Some(source) = self.sources.get_mut(source)
            && (!own.is_empty() || is_due)
        {
            source.turn(Some(own), now_ms, &mut events);
        }
        events
    }

    /// Returns the host that has the guests' memory: this machine's reading, unless a source
    /// manages the memory of another host.
    pub(crate) fn host(&self, own: Result<Machine, procfs::Error>) -> Result<Machine, String> {
        let own = own.map_err(|error| error.to_string())?;
        let mut hosts = self.sources.iter().map(|source| source.host_memory());
        match hosts.find(|memory| *memory != HostMemory::OfThisKernel) {
            None | Some(HostMemory::OfThisKernel) => Ok(own),
            Some(HostMemory::Known { total, available }) => Ok(own.in_guest_of(total, available)),
            Some(HostMemory::Unknown) => Err("z/VM's memory is not known".to_owned()),
        }
    }

    /// Returns the users that seem to have unmanaged guests here.
    pub(crate) fn others(&self) -> BTreeSet<Owner> {
        self.sources.iter().flat_map(|source| source.others()).collect()
    }

    /// Returns the directories of monitors without a guest so far, with their owners.
    pub(crate) fn unclaimed(&self) -> BTreeSet<(PathBuf, Owner)> {
        self.sources.iter().flat_map(|source| source.unclaimed()).collect()
    }

    /// Returns the sources' problems that persist.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.sources.iter().filter_map(|source| source.trouble()).collect()
    }

    /// Returns the rows of the sources, with their numbers of guests.
    pub(crate) fn rows(&self, guests_of: impl Fn(usize) -> usize) -> Vec<SourceRow> {
        let rows = self.sources.iter().enumerate().map(|(at, source)| SourceRow {
            name: source.name(),
            guests: guests_of(at),
            trouble: source.trouble(),
        });
        rows.collect()
    }

    /// Returns the places that are searched for guests.
    pub(crate) fn places(&self, qmp_patterns: &[String]) -> String {
        let place = |name: String| if name == "qmp" { qmp_patterns.join(", ") } else { name };
        let places: Vec<String> = self.sources.iter().map(|s| place(s.name())).collect();
        match places.is_empty() {
            true => "any source: [sources] lists none".to_owned(),
            false => places.join(", "),
        }
    }
}
