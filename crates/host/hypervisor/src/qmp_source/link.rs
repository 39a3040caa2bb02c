//! One connection to a QEMU's monitor: bytes, budget, and the open requests.

use std::io;
use std::path::Path;

use base::Bytes;
use qmp::{Client, Command, Failure, Incoming, Reply, Ticket, Value};
use rustix::event::PollFlags;

use crate::{Owner, ProcessId, peer};
use reactor::{Budget, Connection, read_some, write_some};

/// Bytes per second that a QEMU may send. QEMU sends at most one event of each kind per second,
/// with some 200 bytes. Responses to this process's requests are larger, but rare.
const BYTES_A_SECOND: u64 = 64 * 1024;
/// Bytes that a QEMU may send at once, enough for two responses of the maximum length.
const BURST: u64 = 2 * qmp::MESSAGE_BYTES_MAX as u64;
/// Maximum number of bytes read from one QEMU per turn, so that every QEMU gets its turn.
const TURN: usize = 64 * 1024;
/// Minimum cost of a read. A QEMU that sends single bytes causes a wake-up for each byte.
const READ_COST: u64 = 1024;
/// Invalid QMP lines or unrequested responses before the connection is closed. A real QEMU sends
/// none.
const GARBAGE_MAX: u32 = 8;

/// Reason for a guest's end when its QEMU closes the monitor's connection. QEMU closes this
/// connection only when it exits.
pub(super) const CLOSED: &str = "QEMU has exited";

/// Formats an error. A QEMU that exits with a request unread resets the connection instead of
/// closing it.
fn failed(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => format!("the connection to QEMU's monitor failed: {error}"),
    }
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Name,
    Uuid,
    Status,
    Memory,
    Memdevs,
    /// The part of memory that the balloon does not count.
    Beside,
    Actual,
    Vcpus,
    Chardevs,
    Migration,
    Blocks,
    /// The devices with an id, or the devices without an id.
    Devices(&'static str),
    DeflateOnOom,
    /// Presence of balloon statistics.
    StatsThere,
    PageReporting,
    /// Name and character device of a serial port, by its index in the probe's list.
    PortName(usize),
    PortChardev(usize),
    Target(Bytes),
    /// Running or pausing the vCPUs.
    Running(bool),
    /// The last statistics of the guest.
    StatsKnown,
    /// Polling period of the statistics, read and set.
    StatsPeriod,
    StatsSet(u32),
}

#[derive(Debug)]
pub(super) enum Received {
    Ready,
    Answer(Purpose, Result<Reply, Failure>),
    Event { name: String, data: Value },
}

/// A command without a response yet.
#[derive(Debug)]
struct Open {
    ticket: Ticket,
    purpose: Purpose,
    asked_ms: u64,
}

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

    /// Returns the user and the process at the other end, as reported by the kernel.
    pub(super) fn peer(&self, owner: Owner, root: &Path) -> (Option<Owner>, Option<ProcessId>) {
        peer::of(&self.stream, owner, root)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.stream
    }

    /// Returns the poll flags. A connection over its budget is not read.
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

    /// Returns true if the connection is not read until its budget is refilled.
    pub(super) fn is_over_budget(&self) -> bool {
        self.budget.left() == 0
    }

    pub(super) fn refill(&mut self, now_ms: u64) {
        self.budget.refill(now_ms);
        self.refilled_ms = now_ms;
    }

    /// Sends a request, unless too many are open. Returns true if the request was sent.
    pub(super) fn ask(&mut self, purpose: Purpose, command: Command, now_ms: u64) -> bool {
        let Ok(ticket) = self.client.ask(command) else { return false };
        self.open.push(Open { ticket, purpose, asked_ms: now_ms });
        true
    }

    /// Returns true if a request with such a purpose has no response yet.
    pub(super) fn waits_for(&self, is_it: impl Fn(&Purpose) -> bool) -> bool {
        self.open.iter().any(|open| is_it(&open.purpose))
    }

    pub(super) fn waits_since_ms(&self) -> Option<u64> {
        self.open.iter().map(|open| open.asked_ms).min()
    }

    /// Restarts the timeouts of all open requests. The time for which QEMU was stopped does not
    /// count.
    pub(super) fn wait_anew(&mut self, now_ms: u64) {
        self.open.iter_mut().for_each(|open| open.asked_ms = now_ms);
    }

    pub(super) fn send(&mut self) -> Result<(), String> {
        let sent = write_some(&*self.stream, self.client.output());
        self.client.advance(sent.map_err(|error| failed(&error))?);
        Ok(())
    }

    /// Reads messages. An error is the reason, in words, why no more messages can arrive.
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
                Ok(Incoming::Ready) => out.push(Received::Ready),
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
                Err(format!("its monitor does not send valid QMP: {error}"))
            }
            _ => Ok(()),
        }
    }
}
