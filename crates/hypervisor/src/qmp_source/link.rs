//! One connection to a QEMU's monitor: bytes, budget, and which answer is whose.

use std::io;
use std::path::Path;

use counters::Bytes;
use qmp::{Client, Command, Failure, Incoming, Reply, Ticket, Value};
use rustix::event::PollFlags;

use crate::{Owner, ProcessId, peer};
use reactor::{Budget, Connection, read_some, write_some};

/// Bytes a second that a QEMU may send. Its events come at most once a second a kind, and are
/// some 200 bytes each; our own questions make it send more, but seldom.
const BYTES_A_SECOND: u64 = 64 * 1024;
/// Bytes that a QEMU may send at once: the longest answer that is read at all, and another.
const BURST: u64 = 2 * qmp::MESSAGE_BYTES_MAX as u64;
/// Bytes taken from one QEMU in one turn, so that the others have theirs.
const TURN: usize = 64 * 1024;
/// The least that a read costs of the budget: a QEMU that sends its bytes one by one wakes us for
/// each of them.
const READ_COST: u64 = 1024;
/// Lines that are no QMP, or answers that nobody asked for, until the connection is given up. A
/// real QEMU sends none.
const GARBAGE_MAX: u32 = 8;

/// The reason of the end of a QEMU that has exited.
pub(super) const CLOSED: &str = "QEMU closed its monitor";

/// A QEMU that ends with a question of ours unread resets the connection instead of closing it.
fn failed(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => format!("its monitor failed: {error}"),
    }
}

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Name,
    Uuid,
    Status,
    Memory,
    Memdevs,
    /// Memory that the balloon does not count.
    Beside,
    Actual,
    Vcpus,
    Chardevs,
    Migration,
    Blocks,
    /// The devices with an id, or those without.
    Devices(&'static str),
    DeflateOnOom,
    /// The statistics of the balloon, if it has any.
    StatsThere,
    PageReporting,
    /// The name and the character device of a serial port, by its place in the probe's list.
    PortName(usize),
    PortChardev(usize),
    Target(Bytes),
    /// The virtual CPUs are stopped, or let run.
    Running(bool),
    /// The statistics, as the guest gave them last.
    StatsKnown,
    /// How often the guest is asked for them, read and set.
    StatsPeriod,
    StatsSet(u32),
}

/// A message of a QEMU.
#[derive(Debug)]
pub(super) enum Received {
    Ready,
    Answer(Purpose, Result<Reply, Failure>),
    Event { name: String, data: Value },
}

/// A command that waits for its answer.
#[derive(Debug)]
struct Open {
    ticket: Ticket,
    purpose: Purpose,
    asked_ms: u64,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    stream: Connection,
    client: Client,
    budget: Budget,
    open: Vec<Open>,
    garbage: u32,
    pub(super) refilled_ms: u64,
}

impl Link {
    /// Connects to the socket of a user.
    pub(super) fn connect(path: &Path, owner: Owner, now_ms: u64) -> io::Result<Link> {
        Ok(Link {
            stream: crate::owner::connect(path, owner)?.into(),
            client: Client::new(),
            budget: Budget::new(BYTES_A_SECOND, BURST, now_ms),
            open: Vec::new(),
            garbage: 0,
            refilled_ms: now_ms,
        })
    }

    /// Who listens on the other end, and by which process, as the kernel knows it.
    pub(super) fn peer(&self, owner: Owner, root: &Path) -> (Option<Owner>, Option<ProcessId>) {
        peer::of(&self.stream, owner, root)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.stream
    }

    /// What to wait for. A QEMU without a budget is not listened to.
    pub(super) fn flags(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        if self.budget.left() > 0 {
            flags |= PollFlags::IN;
        }
        if !self.client.output().is_empty() {
            flags |= PollFlags::OUT;
        }
        flags
    }

    /// Whether it is to be listened to again when time has passed.
    pub(super) fn is_over_budget(&self) -> bool {
        self.budget.left() == 0
    }

    pub(super) fn refill(&mut self, now_ms: u64) {
        self.budget.refill(now_ms);
        self.refilled_ms = now_ms;
    }

    /// Asks, unless too much waits for an answer already.
    pub(super) fn ask(&mut self, purpose: Purpose, command: Command, now_ms: u64) -> bool {
        let Ok(ticket) = self.client.ask(command) else { return false };
        self.open.push(Open { ticket, purpose, asked_ms: now_ms });
        true
    }

    /// Whether an answer for such a purpose is still to come.
    pub(super) fn waits_for(&self, is_it: impl Fn(&Purpose) -> bool) -> bool {
        self.open.iter().any(|open| is_it(&open.purpose))
    }

    /// When the command was asked that waits longest for its answer.
    pub(super) fn waits_since_ms(&self) -> Option<u64> {
        self.open.iter().map(|open| open.asked_ms).min()
    }

    /// Counts from now how long answers are waited for: a QEMU that was stopped has not hung.
    pub(super) fn wait_anew(&mut self, now_ms: u64) {
        self.open.iter_mut().for_each(|open| open.asked_ms = now_ms);
    }

    /// Hands over what waits to be sent, as much as the socket takes.
    pub(super) fn send(&mut self) -> Result<(), String> {
        let sent = write_some(&*self.stream, self.client.output());
        self.client.advance(sent.map_err(|error| failed(&error))?);
        Ok(())
    }

    /// Reads what has come. The error is the reason, for people, why nothing more will come.
    pub(super) fn receive(&mut self, out: &mut Vec<Received>) -> Result<(), String> {
        let mut buffer = [0; TURN];
        let room = TURN.min(usize::try_from(self.budget.left()).unwrap_or(TURN));
        if room == 0 {
            return Ok(());
        }
        let count = read_some(&*self.stream, &mut buffer[..room]);
        let count = count.map_err(|error| failed(&error))?;
        if count == 0 {
            return Ok(());
        }
        self.budget.spend(READ_COST.max(count as u64));
        self.client.feed(&buffer[..count]);
        let mut last_error = None;
        while let Some(incoming) = self.client.poll() {
            match incoming {
                Ok(Incoming::Ready(_)) => out.push(Received::Ready),
                Ok(Incoming::Reply { ticket, outcome }) => {
                    let place = self.open.iter().position(|open| open.ticket == ticket);
                    let open = place.map(|place| self.open.remove(place));
                    out.extend(open.map(|open| Received::Answer(open.purpose, outcome)));
                }
                Ok(Incoming::Event { name, data, .. }) => out.push(Received::Event { name, data }),
                Err(error @ qmp::Error::Refused { .. }) => return Err(error.to_string()),
                Err(error) => {
                    self.garbage = self.garbage.saturating_add(1);
                    last_error = Some(error);
                }
            }
        }
        match last_error {
            Some(error) if self.garbage > GARBAGE_MAX => {
                Err(format!("what its monitor sends is no QMP: {error}"))
            }
            _ => Ok(()),
        }
    }
}
