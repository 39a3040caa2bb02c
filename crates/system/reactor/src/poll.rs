//! The poll set. Each descriptor is added under a key, and ready descriptors are reported by their
//! keys.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::watch::{Connection, Watched, Watcher};

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The descriptor's owner.
    pub owner: u64,
    /// The key among the owner's descriptors.
    pub key: u64,
    /// The events that are ready.
    pub flags: PollFlags,
}

/// The descriptors and events to poll for.
#[derive(Debug, Default)]
pub struct PollSet<'a> {
    owner: u64,
    all: Vec<Entry<'a>>,
}

#[derive(Debug)]
struct Entry<'a> {
    fd: BorrowedFd<'a>,
    flags: PollFlags,
    owner: u64,
    key: u64,
    /// The number of the connection, if the descriptor belongs to a connection.
    number: Option<u64>,
}

impl<'a> PollSet<'a> {
    /// Creates an empty set.
    pub fn new() -> PollSet<'a> {
        PollSet::default()
    }

    /// Sets the owner of the descriptors that are added next. An owner must add all its descriptors
    /// before the next owner is set.
    pub fn owner(&mut self, owner: u64) -> &mut PollSet<'a> {
        self.owner = owner;
        self
    }

    /// Adds a descriptor of the current owner. Errors and hang-ups are reported for any flags.
    pub fn add(&mut self, key: u64, fd: BorrowedFd<'a>, flags: PollFlags) {
        self.all.push(Entry { fd, flags, owner: self.owner, key, number: None });
    }

    /// Adds a long-lived connection.
    pub fn connection(&mut self, key: u64, one: &'a Connection, flags: PollFlags) {
        let (fd, number) = (one.as_fd(), Some(one.number()));
        self.all.push(Entry { fd, flags, owner: self.owner, key, number });
    }

    /// Returns the number of descriptors.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true if there is no descriptor.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Waits until a descriptor is ready or the time has passed. A signal ends the wait early, with
    /// nothing ready.
    pub fn wait(self, wait_ms: u64) -> io::Result<Ready> {
        self.wait_for(None, wait_ms)
    }

    /// Waits like `wait`, but passes only those connections to the kernel that the watcher has not
    /// registered yet.
    pub fn wait_with(self, watcher: &mut Watcher, wait_ms: u64) -> io::Result<Ready> {
        let watched = |one: &Entry<'a>| {
            let Entry { fd, flags, number, .. } = *one;
            number.map(|number| Watched { fd, number, flags })
        };
        let watched: Vec<Watched<'_>> = self.all.iter().filter_map(watched).collect();
        if !watcher.watch(&watched) {
            return self.wait(wait_ms);
        }
        self.wait_for(Some(watcher), wait_ms)
    }

    /// Waits, and leaves connections to the watcher, if there is one.
    fn wait_for(self, watcher: Option<&Watcher>, wait_ms: u64) -> io::Result<Ready> {
        let timeout = Timespec {
            tv_sec: i64::try_from(wait_ms / 1000).unwrap_or(i64::MAX),
            tv_nsec: (wait_ms % 1000) as i64 * 1_000_000,
        };
        let is_polled = |one: &&Entry<'_>| watcher.is_none() || one.number.is_none();
        let polled = self.all.iter().filter(is_polled);
        let mut fds: Vec<PollFd<'_>> =
            polled.map(|one| PollFd::from_borrowed_fd(one.fd, one.flags)).collect();
        let epoll = watcher.and_then(Watcher::fd);
        fds.extend(epoll.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let flags: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        let has_spoken = epoll.is_some() && flags.last().is_some_and(|flags| !flags.is_empty());
        let is_watched = watcher.is_some();
        let spoken = watcher.filter(|_| has_spoken).map(Watcher::ready).unwrap_or_default();
        let mut polled = flags.into_iter();
        let mut events = Vec::new();
        for Entry { owner, key, number, .. } in self.all {
            let flags = match number.filter(|_| is_watched) {
                Some(number) => {
                    let found = spoken.binary_search_by_key(&number, |(spoken, _)| *spoken);
                    found.ok().and_then(|at| spoken.get(at)).map_or(PollFlags::empty(), |one| one.1)
                }
                None => polled.next().unwrap_or(PollFlags::empty()),
            };
            if !flags.is_empty() {
                events.push(Event { owner, key, flags });
            }
        }
        Ok(Ready { events })
    }
}

/// The result of a wait.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    events: Vec<Event>,
}

impl Ready {
    /// Returns the ready descriptors of an owner, in the order in which they were added.
    pub fn of(&self, owner: u64) -> &[Event] {
        let rest = match self.events.iter().position(|event| event.owner == owner) {
            Some(from) => &self.events[from..],
            None => return &[],
        };
        let end = rest.iter().position(|event| event.owner != owner).unwrap_or(rest.len());
        &rest[..end]
    }

    /// Returns true if any descriptor of an owner is ready.
    pub fn has(&self, owner: u64) -> bool {
        !self.of(owner).is_empty()
    }

    /// Returns all ready descriptors.
    pub fn all(&self) -> &[Event] {
        &self.events
    }
}

/// Events of one owner, looked up in the order in which its descriptors were added. Any other order
/// also works, but more slowly.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'e> {
    rest: &'e [Event],
}

impl<'e> Lookup<'e> {
    /// Creates a lookup over all events.
    pub fn new(events: &'e [Event]) -> Lookup<'e> {
        Lookup { rest: events }
    }

    /// Returns the ready events of a key; empty if the descriptor is not ready.
    pub fn flags(&mut self, key: u64) -> PollFlags {
        match self.rest.first() {
            Some(event) if event.key == key => {
                self.rest = &self.rest[1..];
                event.flags
            }
            _ => Event::flags_of(self.rest, key),
        }
    }
}

impl Event {
    /// Returns the ready events of a key, among the events of one owner; empty if the descriptor is
    /// not ready.
    pub fn flags_of(events: &[Event], key: u64) -> PollFlags {
        let found = events.iter().find(|event| event.key == key);
        found.map_or(PollFlags::empty(), |event| event.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn ready_descriptors_are_reported_by_owner_and_key() {
        let pairs: Vec<_> = (0..5).map(|_| UnixStream::pair().unwrap()).collect();
        for at in [1, 3, 4] {
            (&pairs[at].1).write_all(b"x").unwrap();
        }
        let mut set = PollSet::new();
        for (owner, at) in [(7, 0), (7, 1), (2, 2), (2, 3), (9, 4)] {
            set.owner(owner).add(at as u64 * 10, pairs[at].0.as_fd(), PollFlags::IN);
        }
        assert_eq!(set.len(), 5);
        let ready = set.wait(1_000).unwrap();
        let keys = |owner| ready.of(owner).iter().map(|event| event.key).collect::<Vec<_>>();
        assert_eq!((keys(7), keys(2), keys(9), keys(1)), (vec![10], vec![30], vec![40], vec![]));
        assert!(ready.has(9) && !ready.has(1));
        assert_eq!(Event::flags_of(ready.of(7), 10), PollFlags::IN);
        assert_eq!(Event::flags_of(ready.of(7), 0), PollFlags::empty());
        assert_eq!(ready.all().len(), 3);
    }

    #[test]
    fn a_wait_for_nothing_ends() {
        assert!(PollSet::new().wait(1).unwrap().all().is_empty());
    }
}
