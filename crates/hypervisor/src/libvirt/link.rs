//! One connection to libvirt's daemon: bytes moved, replies matched with their askers.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use reactor::write_some;
use rustix::event::PollFlags;
use virtrpc::{Call, Client, Error, EventKind, Failure, Incoming, Reply, Ticket};

use super::guest::Ask;
use crate::{Id, Owner};

/// A call that is not answered for so long counts as not answered. libvirt itself waits 30 s for
/// a domain whose monitor is in use, and forever for one that hangs.
const ANSWER_MS: u64 = 5_000;

/// How many calls are open at once. libvirt reads five of a client and then no more before it has
/// answered one; the fifth is left free so that the connection never stands still for our own
/// calls alone.
const OPEN_MAX: usize = 4;

/// With so many calls unanswered for long, the connection is given up for a new one: those that
/// remain would not be enough for the guests that do answer.
const LATE_MAX: usize = 3;

/// The most bytes that are read in a turn, so that a daemon that floods gets its share and no
/// more. A list of all domains fits.
const READ_MAX: usize = 1 << 20;

/// A step of the connection itself, as opposed to one of its guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Which proof is wanted.
    Auths,
    /// Prove who we are.
    Polkit,
    /// Open the hypervisor.
    Open,
    /// Register for this and then all later kinds of events.
    Register(usize),
    /// List the domains.
    List,
}

impl Step {
    fn call(self, uri: &str) -> Call {
        match self {
            Step::Auths => Call::AuthList,
            Step::Polkit => Call::AuthPolkit,
            Step::Open => Call::Open { uri: uri.to_owned(), is_read_only: false },
            Step::Register(index) => Call::Register(EventKind::ALL[index % EventKind::ALL.len()]),
            Step::List => Call::ListActive,
        }
    }
}

/// The asker of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The connection.
    Session(Step),
    /// A guest.
    Guest(Id, Ask),
}

/// A message of libvirt.
#[derive(Debug)]
pub(super) enum Received {
    /// An answer.
    Reply(Asker, Result<Reply, Failure>),
    /// An event.
    Event(virtrpc::Event),
}

/// Why a connection is worth nothing any more.
#[derive(Debug)]
pub(super) enum Loss {
    /// The other end closed it.
    Closed,
    /// It failed.
    Failed(io::Error),
    /// It speaks something else.
    Foreign(Error),
}

#[derive(Debug)]
struct Open {
    asker: Asker,
    deadline_ms: u64,
    is_late: bool,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    client: Client,
    open: BTreeMap<Ticket, Open>,
    /// The step to be asked for next.
    step: Option<Step>,
    /// The time that the daemon has for a step, and for a list.
    step_ms: u64,
    list_ms: u64,
}

impl Link {
    /// Connects, without waiting. The daemon has this much time for each step, and for a list where
    /// no guest waits for that, or as much as for a guest's call.
    pub(super) fn to(
        socket: &Path,
        owner: Owner,
        step_ms: u64,
        guests_wait: bool,
    ) -> io::Result<Link> {
        let stream = crate::owner::connect(socket, owner)?;
        let step = Some(Step::Auths);
        let step_ms = step_ms.max(ANSWER_MS);
        let list_ms = if guests_wait { ANSWER_MS } else { step_ms };
        let (client, open) = (Client::new(), BTreeMap::new());
        Ok(Link { stream, client, open, step, step_ms, list_ms })
    }

    pub(super) fn fd(&self) -> (BorrowedFd<'_>, PollFlags) {
        let wanted = match self.client.output() {
            [] => PollFlags::IN,
            _ => PollFlags::IN | PollFlags::OUT,
        };
        (self.stream.as_fd(), wanted)
    }

    /// Has a step asked for as soon as there is room.
    pub(super) fn next_step(&mut self, step: Step) {
        self.step = Some(step);
    }

    /// Asks for the step that is due.
    pub(super) fn take_step(&mut self, uri: &str, now_ms: u64) {
        if let Some(step) = self.step
            && self.ask(Asker::Session(step), step.call(uri), now_ms)
        {
            self.step = None;
        }
    }

    /// Whether one more call may be asked for.
    pub(super) fn has_room(&self) -> bool {
        self.open.len() < OPEN_MAX
    }

    /// Asks for a call; `false` if there is no room for it now.
    pub(super) fn ask(&mut self, asker: Asker, call: Call, now_ms: u64) -> bool {
        if !self.has_room() {
            return false;
        }
        let Ok(ticket) = self.client.ask(call) else { return false };
        let answer_ms = match asker {
            Asker::Session(Step::List) => self.list_ms,
            Asker::Session(_) => self.step_ms,
            Asker::Guest(..) => ANSWER_MS,
        };
        let deadline_ms = now_ms.saturating_add(answer_ms);
        self.open.insert(ticket, Open { asker, deadline_ms, is_late: false });
        true
    }

    /// The calls that have become late now.
    pub(super) fn late(&mut self, now_ms: u64) -> Vec<Asker> {
        let late = self.open.values_mut().filter(|open| !open.is_late);
        let late = late.filter(|open| open.deadline_ms <= now_ms);
        late.map(|open| {
            open.is_late = true;
            open.asker
        })
        .collect()
    }

    /// Whether too many calls stay unanswered for those that remain to be enough.
    pub(super) fn is_clogged(&self) -> bool {
        self.open.values().filter(|open| open.is_late).count() >= LATE_MAX
    }

    /// When the first of the open calls becomes late.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let open = self.open.values().filter(|open| !open.is_late);
        open.map(|open| open.deadline_ms).min()
    }

    /// The askers that still wait.
    pub(super) fn into_askers(self) -> impl Iterator<Item = Asker> {
        self.open.into_values().map(|open| open.asker)
    }

    /// Takes what has come. What cannot be understood costs itself only.
    pub(super) fn read(&mut self, received: &mut Vec<Received>) -> Result<(), Loss> {
        let mut buffer = [0; 16 << 10];
        let mut left = READ_MAX;
        while left > 0 {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Loss::Closed),
                Ok(length) => {
                    left = left.saturating_sub(length);
                    self.client.feed(&buffer[..length]);
                    self.take(received)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Loss::Failed(error)),
            }
        }
        Ok(())
    }

    fn take(&mut self, received: &mut Vec<Received>) -> Result<(), Loss> {
        while let Some(incoming) = self.client.poll() {
            match incoming {
                Ok(Incoming::Reply { ticket, outcome }) => {
                    if let Some(open) = self.open.remove(&ticket) {
                        received.push(Received::Reply(open.asker, outcome));
                    }
                }
                Ok(Incoming::Event(event)) => received.push(Received::Event(event)),
                Err(error) if error.is_fatal() => return Err(Loss::Foreign(error)),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Sends what waits, as far as the other end takes it.
    pub(super) fn write(&mut self) -> Result<(), Loss> {
        match write_some(&mut self.stream, self.client.output()) {
            Ok(sent) => self.client.advance(sent),
            Err(error) => {
                return Err(match error.kind() {
                    io::ErrorKind::BrokenPipe | io::ErrorKind::WriteZero => Loss::Closed,
                    _ => Loss::Failed(error),
                });
            }
        }
        Ok(())
    }
}
