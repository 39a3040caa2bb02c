//! One connection to libvirt's daemon. It moves bytes, and matches replies with their calls.

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

/// Timeout of a call. libvirt itself waits 30 s for a domain with a busy monitor, and forever for a
/// hung monitor.
const ANSWER_MS: u64 = 5_000;

/// Maximum number of open calls. libvirt reads five calls per client before it stops reading. The
/// fifth call stays free, so that this program's own calls never block the connection.
const OPEN_MAX: usize = 4;

/// Number of late calls at which the connection is replaced. More late calls would leave too few
/// calls for the guests that respond.
const LATE_MAX: usize = 3;

/// Maximum number of bytes read per turn, so that a flooding daemon gets no more than its share of
/// time. A list of all domains fits.
const READ_MAX: usize = 1 << 20;

/// A step of the connection's setup, as opposed to a guest's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Request the authentication methods.
    Auths,
    /// Authenticate by polkit.
    Polkit,
    /// Open the hypervisor.
    Open,
    /// Register for this and all later kinds of events.
    Register(usize),
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

/// Origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The connection itself.
    Session(Step),
    Guest(Id, Ask),
}

#[derive(Debug)]
pub(super) enum Received {
    Reply(Asker, Result<Reply, Failure>),
    Event(virtrpc::Event),
}

/// Reason for the loss of a connection.
#[derive(Debug)]
pub(super) enum Loss {
    /// The other end closed the connection.
    Closed,
    Failed(io::Error),
    /// The other end speaks another protocol.
    Foreign(Error),
}

#[derive(Debug)]
struct Open {
    asker: Asker,
    deadline_ms: u64,
    is_late: bool,
}

#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    client: Client,
    open: BTreeMap<Ticket, Open>,
    /// The next step to request.
    step: Option<Step>,
    /// Timeout of a step, except for the list of domains.
    step_ms: u64,
    list_ms: u64,
}

impl Link {
    /// Connects without waiting. `step_ms` is the timeout of each step, including the list of
    /// domains. If guests wait for the list, the list has the timeout of a guest's call instead.
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

    pub(super) fn next_step(&mut self, step: Step) {
        self.step = Some(step);
    }

    /// Requests the step that is due.
    pub(super) fn take_step(&mut self, uri: &str, now_ms: u64) {
        if let Some(step) = self.step
            && self.ask(Asker::Session(step), step.call(uri), now_ms)
        {
            self.step = None;
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.open.len() < OPEN_MAX
    }

    /// Sends a call. Returns false if there is no room for it now.
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

    /// Returns the calls that have become late now.
    pub(super) fn late(&mut self, now_ms: u64) -> Vec<Asker> {
        let late = self.open.values_mut().filter(|open| !open.is_late);
        let late = late.filter(|open| open.deadline_ms <= now_ms);
        late.map(|open| {
            open.is_late = true;
            open.asker
        })
        .collect()
    }

    /// Returns true if too many late calls block the connection.
    pub(super) fn is_clogged(&self) -> bool {
        self.open.values().filter(|open| open.is_late).count() >= LATE_MAX
    }

    /// Returns the time at which the next open call becomes late.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let open = self.open.values().filter(|open| !open.is_late);
        open.map(|open| open.deadline_ms).min()
    }

    pub(super) fn into_askers(self) -> impl Iterator<Item = Asker> {
        self.open.into_values().map(|open| open.asker)
    }

    /// Reads messages. An invalid message is skipped.
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
