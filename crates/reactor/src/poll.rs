//! The poll set: each descriptor is added under a key, and what is ready is told by keys.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose descriptor it is.
    pub owner: u64,
    /// Which of the owner's descriptors it is.
    pub key: u64,
    /// What it is ready for.
    pub flags: PollFlags,
}

/// What is waited for.
#[derive(Debug, Default)]
pub struct PollSet<'a> {
    owner: u64,
    fds: Vec<PollFd<'a>>,
    /// The owner and the key of each descriptor.
    tokens: Vec<(u64, u64)>,
}

impl<'a> PollSet<'a> {
    /// An empty set.
    pub fn new() -> PollSet<'a> {
        PollSet::default()
    }

    /// What is added from here on belongs to this owner. An owner adds all its descriptors at
    /// once.
    pub fn owner(&mut self, owner: u64) -> &mut PollSet<'a> {
        self.owner = owner;
        self
    }

    /// Adds a descriptor of the current owner. Errors and hang-ups are reported for any flags.
    pub fn add(&mut self, key: u64, fd: BorrowedFd<'a>, flags: PollFlags) {
        self.fds.push(PollFd::from_borrowed_fd(fd, flags));
        self.tokens.push((self.owner, key));
    }

    /// How many descriptors there are.
    pub fn len(&self) -> usize {
        self.fds.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.fds.is_empty()
    }

    /// Waits until a descriptor is ready, or for so long. A signal ends the wait early, with
    /// nothing ready.
    pub fn wait(mut self, wait_ms: u64) -> io::Result<Ready> {
        let timeout = Timespec {
            tv_sec: i64::try_from(wait_ms / 1000).unwrap_or(i64::MAX),
            tv_nsec: (wait_ms % 1000) as i64 * 1_000_000,
        };
        let count = match poll(&mut self.fds, Some(&timeout)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        };
        let mut events = Vec::with_capacity(count);
        let all = self.fds.iter().map(PollFd::revents).zip(self.tokens);
        events.extend(
            all.filter(|(flags, _)| !flags.is_empty()).map(|(flags, (owner, key))| Event {
                owner,
                key,
                flags,
            }),
        );
        Ok(Ready { events })
    }
}

/// What a wait has found.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    events: Vec<Event>,
}

impl Ready {
    /// The descriptors of an owner that are ready, in the order in which they were added.
    pub fn of(&self, owner: u64) -> &[Event] {
        let rest = match self.events.iter().position(|event| event.owner == owner) {
            Some(from) => &self.events[from..],
            None => return &[],
        };
        let end = rest.iter().position(|event| event.owner != owner).unwrap_or(rest.len());
        &rest[..end]
    }

    /// Whether any descriptor of an owner is ready.
    pub fn has(&self, owner: u64) -> bool {
        !self.of(owner).is_empty()
    }

    /// All descriptors that are ready.
    pub fn all(&self) -> &[Event] {
        &self.events
    }
}

/// Events of one owner, looked up in the order in which its descriptors were added. Any other
/// order is right too, and slower.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'e> {
    rest: &'e [Event],
}

impl<'e> Lookup<'e> {
    /// A look at all of them.
    pub fn new(events: &'e [Event]) -> Lookup<'e> {
        Lookup { rest: events }
    }

    /// What a key is ready for; empty if it is not.
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
    /// What a key is ready for, in the events of one owner; empty if it is not ready.
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
    fn what_is_ready_is_told_by_owner_and_key() {
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
