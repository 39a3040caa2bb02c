//! The client's side of a conversation with libvirt, as a state machine.
//!
//! Calls may be made at any time and are answered in any order; a serial number in the header
//! matches answers to calls. The owner of the connection authenticates and then opens a hypervisor,
//! because it has to report errors of these steps to the user.

use std::collections::VecDeque;

use crate::call::{Call, PROGRAM, VERSION};
use crate::decoder::{Decoder, Header, Message};
use crate::{Error, Event, Failure, Reply};

/// Maximum number of open calls. libvirt reads at most five calls of a client before it answers one
/// of them, so more open calls mean that libvirt hangs. Without this limit each tick of a manager
/// would then add to the queue forever.
pub const PENDING_MAX: usize = 64;

/// The protocol by which each side checks that the other is alive.
const KEEPALIVE_PROGRAM: u32 = 0x6b65_6570;
const KEEPALIVE_VERSION: u32 = 1;
const PING: i32 = 1;
const PONG: i32 = 2;

/// Maximum number of pongs that wait to be written. A peer that sends pings without reading gets no
/// more pongs.
const PONGS_MAX: u32 = 8;

const KIND_REPLY: u32 = 1;
const KIND_EVENT: u32 = 2;
const STATUS_OK: u32 = 0;
const STATUS_ERROR: u32 = 1;

/// Identifies a call, to find its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u32);

/// The result of [`Client::poll`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A call was answered. An answer that cannot be parsed is reported as a failure, so that each
    /// call gets a result.
    Reply {
        /// The ticket of the call.
        ticket: Ticket,
        /// The daemon's answer.
        outcome: Result<Reply, Failure>,
    },
    /// An event was reported.
    Event(Event),
}

/// The state of one connection. The caller moves bytes: received bytes go into
/// [`feed`](Self::feed), and [`output`](Self::output) goes to the socket.
#[derive(Debug, Default)]
pub struct Client {
    decoder: Decoder,
    /// The number of the last call; the first is 1.
    last_serial: u32,
    open: VecDeque<(u32, Call)>,
    output: Vec<u8>,
    /// Pongs since the output was empty.
    pongs: u32,
}

impl Client {
    /// Creates the state of a new connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues a call. Its reply has the same ticket.
    pub fn ask(&mut self, call: Call) -> Result<Ticket, Error> {
        if self.open.len() >= PENDING_MAX {
            return Err(Error::Backlog { limit: PENDING_MAX });
        }
        // Serials may wrap around after years; a serial that is still open is skipped.
        loop {
            self.last_serial = self.last_serial.wrapping_add(1);
            let serial = self.last_serial;
            if serial != 0 && !self.open.iter().any(|(open, _)| *open == serial) {
                break;
            }
        }
        self.output.extend(call.encode(self.last_serial));
        self.open.push_back((self.last_serial, call));
        Ok(Ticket(self.last_serial))
    }

    /// Returns the number of calls that wait for their answer.
    pub fn open_calls(&self) -> usize {
        self.open.len()
    }

    /// Returns the bytes that wait to be written to the socket.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Marks the first `written_bytes` of [`output`](Self::output) as written.
    pub fn advance(&mut self, written_bytes: usize) {
        self.output.drain(..written_bytes.min(self.output.len()));
        if self.output.is_empty() {
            self.pongs = 0;
        }
    }

    /// Takes bytes that were read from the socket. [`poll`](Self::poll) must be called until it
    /// returns `None` before the next feed.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
    }

    /// Returns the next result of the bytes fed so far.
    pub fn poll(&mut self) -> Option<Result<Incoming, Error>> {
        loop {
            let message = self.decoder.next()?;
            if let Some(incoming) = message.and_then(|message| self.step(message)).transpose() {
                return Some(incoming);
            }
        }
    }

    fn step(&mut self, message: Message) -> Result<Option<Incoming>, Error> {
        let Message { header, body } = message;
        match (header.program, header.version) {
            (PROGRAM, VERSION) => {}
            (KEEPALIVE_PROGRAM, KEEPALIVE_VERSION) => {
                self.keep_alive(&header);
                return Ok(None);
            }
            (PROGRAM | KEEPALIVE_PROGRAM, value) => {
                return Err(Error::Foreign { member: "version", value });
            }
            (value, _) => return Err(Error::Foreign { member: "program", value }),
        }
        match header.kind {
            KIND_REPLY => {
                let (ticket, call) = self.close(&header)?;
                let outcome = match (body, header.status) {
                    (Err(error), _) => Err(error.into()),
                    (Ok(body), STATUS_OK) => call.read_reply(&body).map_err(Failure::from),
                    (Ok(body), STATUS_ERROR) => {
                        Err(Failure::read(&body).unwrap_or_else(Into::into))
                    }
                    (Ok(_), value) => Err(Error::Foreign { member: "status", value }.into()),
                };
                Ok(Some(Incoming::Reply { ticket, outcome }))
            }
            KIND_EVENT => Ok(Event::read(header.procedure, &body?)?.map(Incoming::Event)),
            value => Err(Error::Foreign { member: "type", value }),
        }
    }

    fn keep_alive(&mut self, header: &Header) {
        if header.procedure == PING && header.kind == KIND_EVENT && self.pongs < PONGS_MAX {
            let pong = Header { procedure: PONG, serial: 0, status: STATUS_OK, ..*header };
            self.output.extend(pong.encode(&[]));
            self.pongs += 1;
        }
    }

    fn close(&mut self, header: &Header) -> Result<(Ticket, Call), Error> {
        let position = self.open.iter().position(|(serial, call)| {
            *serial == header.serial && call.procedure().1 == header.procedure
        });
        let (serial, call) = position
            .and_then(|index| self.open.remove(index))
            .ok_or(Error::UnknownSerial { serial: header.serial })?;
        Ok((Ticket(serial), call))
    }
}
