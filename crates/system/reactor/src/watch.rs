//! Long-lived connections, which are registered with the kernel once, and not at each wait.
//!
//! ```text
//!   Connection (a stream, and a number that no other ever has)
//!   PollSet ─► what has changed since the last wait ─► Watcher (epoll) ─► ready, by number
//! ```
//!
//! `poll` checks every descriptor at every wait. A manager waits five times a second and has three
//! connections for each of a hundred guests, of which hardly any is active. These checks of sockets
//! outside of the CPU's caches took a quarter of the manager's CPU time.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFlags, Timespec};

/// The number of the next connection. Numbers are never reused. Descriptors are reused, and a
/// registration for a descriptor may then belong to another file.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A stream that is polled often, and rarely active.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    number: u64,
}

impl From<UnixStream> for Connection {
    fn from(stream: UnixStream) -> Connection {
        Connection { stream, number: NUMBERS.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Connection {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Deref for Connection {
    type Target = UnixStream;

    fn deref(&self) -> &UnixStream {
        &self.stream
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A connection, and the events to poll it for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched<'a> {
    pub fd: BorrowedFd<'a>,
    pub number: u64,
    pub flags: PollFlags,
}

/// The connections registered with epoll. Without epoll nothing is registered, and everything is
/// polled.
#[derive(Debug, Default)]
pub struct Watcher {
    epoll: Option<OwnedFd>,
    known: Vec<(u64, PollFlags)>,
    has_failed: bool,
}

impl Watcher {
    /// Returns the descriptor that is ready when any registered connection is ready.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.as_ref().map(OwnedFd::as_fd)
    }

    /// Registers the changes. Returns false if that fails, so that these connections must be
    /// polled.
    pub(crate) fn watch(&mut self, all: &[Watched<'_>]) -> bool {
        if self.has_failed {
            return false;
        }
        let is_known =
            |(one, known): (&Watched<'_>, &(u64, PollFlags))| (one.number, one.flags) == *known;
        let is_same = all.len() == self.known.len() && all.iter().zip(&self.known).all(is_known);
        if (self.epoll.is_none() || !is_same) && self.tell(all).is_err() {
            (self.epoll, self.has_failed) = (None, true);
        }
        !self.has_failed
    }

    /// Registers the changes, in a new set if a registered connection is no longer polled. Such a
    /// connection may be closed already, and could then not be removed.
    fn tell(&mut self, all: &[Watched<'_>]) -> io::Result<()> {
        let mut before = std::mem::take(&mut self.known);
        before.sort_unstable_by_key(|(number, _)| *number);
        let place = |number| before.binary_search_by_key(&number, |(known, _)| *known);
        let kept = all.iter().filter(|one| place(one.number).is_ok()).count();
        if kept < before.len() {
            self.epoll = None;
        }
        let is_new = self.epoll.is_none();
        let epoll = match &self.epoll {
            Some(epoll) => epoll,
            None => self.epoll.insert(epoll::create(CreateFlags::CLOEXEC)?),
        };
        for Watched { fd, number, flags } in all {
            let wanted = EventFlags::from_bits_retain(u32::from(flags.bits()));
            match place(*number).ok().and_then(|at| before.get(at)).filter(|_| !is_new) {
                None => epoll::add(epoll, fd, EventData::new_u64(*number), wanted)?,
                Some((_, known)) if known == flags => {}
                Some(_) => epoll::modify(epoll, fd, EventData::new_u64(*number), wanted)?,
            }
        }
        self.known = all.iter().map(|one| (one.number, one.flags)).collect();
        Ok(())
    }

    /// Returns the ready connections, in the order of their numbers.
    pub(crate) fn ready(&self) -> Vec<(u64, PollFlags)> {
        let mut events = Vec::with_capacity(self.known.len().max(1));
        if let Some(epoll) = &self.epoll {
            // The only possible error is a signal, and the next wait finds the same events.
            let _ = epoll::wait(epoll, spare_capacity(&mut events), Some(&Timespec::default()));
        }
        let mut ready: Vec<(u64, PollFlags)> = events
            .iter()
            .map(|event| {
                // The fields are copied, because the structure is packed.
                let (flags, data) = (event.flags, event.data);
                let bits = u16::try_from(flags.bits()).unwrap_or(0);
                (data.u64(), PollFlags::from_bits_retain(bits))
            })
            .collect();
        ready.sort_unstable_by_key(|(number, _)| *number);
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PollSet;
    use std::io::{Read, Write};

    fn pair() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (ours.into(), theirs)
    }

    /// Returns the keys of the ready connections.
    fn ready(watcher: &mut Watcher, all: &[(u64, &Connection, PollFlags)]) -> Vec<u64> {
        let mut set = PollSet::new();
        for (key, connection, flags) in all {
            set.connection(*key, connection, *flags);
        }
        let ready = set.wait_with(watcher, 0).unwrap();
        ready.all().iter().map(|event| event.key).collect()
    }

    #[test]
    fn active_connection_is_reported_by_its_key_until_it_is_read() {
        let mut watcher = Watcher::default();
        let pairs: Vec<_> = (0..40).map(|_| pair()).collect();
        let all: Vec<_> =
            (0..).zip(&pairs).map(|(key, (one, _))| (key, one, PollFlags::IN)).collect();
        assert_eq!(ready(&mut watcher, &all), []);
        for at in [30, 3, 7] {
            (&pairs[at].1).write_all(b"x").unwrap();
        }
        for _ in 0..2 {
            assert_eq!(ready(&mut watcher, &all), [3, 7, 30], "in the order of the set");
        }
        let _ = (&**all[7].1).read(&mut [0; 8]).unwrap();
        assert_eq!(ready(&mut watcher, &all), [3, 30]);
    }

    #[test]
    fn watched_connections_and_events_may_change() {
        let mut watcher = Watcher::default();
        let ((one, mut to_one), (other, to_other)) = (pair(), pair());
        let (none, input, output) = (PollFlags::empty(), PollFlags::IN, PollFlags::OUT);
        assert_eq!(ready(&mut watcher, &[(1, &one, input)]), []);
        assert_eq!(ready(&mut watcher, &[(1, &one, output)]), [1]);
        assert_eq!(ready(&mut watcher, &[(1, &one, none), (2, &other, output)]), [2]);
        to_one.write_all(b"x").unwrap();
        assert_eq!(ready(&mut watcher, &[(2, &other, input)]), [], "one is not waited for");
        assert_eq!(watcher.ready(), [], "and ends no wait");
        assert_eq!(ready(&mut watcher, &[(2, &other, input), (1, &one, input)]), [1]);
        drop(to_other);
        assert_eq!(ready(&mut watcher, &[(1, &one, none), (2, &other, none)]), [2], "a hang-up");
    }

    #[test]
    fn a_descriptor_that_is_used_again_is_another_connection() {
        let mut watcher = Watcher::default();
        let (first, mut to_first) = pair();
        let number = first.as_fd();
        let number = std::os::fd::AsRawFd::as_raw_fd(&number);
        assert_eq!(ready(&mut watcher, &[(1, &first, PollFlags::IN)]), []);
        // Another descriptor keeps the file open, so the kernel does not remove the registration
        // when this descriptor is closed.
        let (second, mut to_second) = pair();
        let copy = first.try_clone().unwrap();
        drop(first);
        let again = Connection::from(rustix::io::dup(&*second).map(UnixStream::from).unwrap());
        let is_same = std::os::fd::AsRawFd::as_raw_fd(&*again) == number;
        assert!(is_same, "the lowest number that is free");
        to_first.write_all(b"x").unwrap();
        to_second.write_all(b"x").unwrap();
        assert_eq!(ready(&mut watcher, &[(1, &again, PollFlags::IN)]), [1]);
        assert_eq!(watcher.ready(), [(again.number(), PollFlags::IN)], "the first is let go of");
        drop((copy, second));
    }
}
