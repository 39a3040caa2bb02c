//! One side of a conversation with libvirt, as a state machine.
//!
//! Calls may be asked for at any time and are answered in any order: a number in the header says
//! which. In which order one has to prove who one is and open a hypervisor is for the owner of the
//! connection to know, since it has to tell people what went wrong there.

use std::collections::VecDeque;

use crate::call::{Call, PROGRAM, VERSION};
use crate::decoder::{Decoder, Header, Message};
use crate::{Error, Event, Failure, Reply};

/// How many calls may be open at once. libvirt reads no more than five of a client's calls before
/// it has answered one, so more than a few open ones mean that it hangs; then each tick of a
/// manager would add to the queue forever.
pub const PENDING_MAX: usize = 64;

/// The protocol by which each side sees whether the other lives.
const KEEPALIVE_PROGRAM: u32 = 0x6b65_6570;
const KEEPALIVE_VERSION: u32 = 1;
const PING: i32 = 1;
const PONG: i32 = 2;

/// How many pongs may wait to be written. Who sends pings and reads nothing gets no more of them.
const PONGS_MAX: u32 = 8;

const KIND_REPLY: u32 = 1;
const KIND_EVENT: u32 = 2;
const STATUS_OK: u32 = 0;
const STATUS_ERROR: u32 = 1;

/// Names one call that was asked, to find its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u32);

/// What [`Client::poll`] has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A call was answered, be it with something that cannot be understood: a ticket is never
    /// lost.
    Reply {
        /// Which call.
        ticket: Ticket,
        /// What the daemon says.
        outcome: Result<Reply, Failure>,
    },
    /// Something happened.
    Event(Event),
}

/// The state of one connection. The caller moves bytes: what it reads goes into
/// [`feed`](Self::feed), what [`output`](Self::output) shows goes to the socket.
#[derive(Debug, Default)]
pub struct Client {
    decoder: Decoder,
    /// The number of the call before; they count from 1.
    last_serial: u32,
    open: VecDeque<(u32, Call)>,
    output: Vec<u8>,
    /// Pongs since the output was empty.
    pongs: u32,
}

impl Client {
    /// The state before anything was said.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a call. The ticket comes back with the reply.
    pub fn ask(&mut self, call: Call) -> Result<Ticket, Error> {
        if self.open.len() >= PENDING_MAX {
            return Err(Error::Backlog { limit: PENDING_MAX });
        }
        // Numbers may come round after years; one that is open still is left out.
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

    /// How many calls wait for their answer.
    pub fn open_calls(&self) -> usize {
        self.open.len()
    }

    /// The bytes that wait to be written to the socket.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Says that the first `written_bytes` of [`output`](Self::output) are written.
    pub fn advance(&mut self, written_bytes: usize) {
        self.output.drain(..written_bytes.min(self.output.len()));
        if self.output.is_empty() {
            self.pongs = 0;
        }
    }

    /// Takes bytes that were read from the socket. Call [`poll`](Self::poll) until it gives
    /// `None` before the next feed.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
    }

    /// The next thing that follows from the bytes fed so far.
    pub fn poll(&mut self) -> Option<Result<Incoming, Error>> {
        loop {
            let message = match self.decoder.next()? {
                Ok(message) => message,
                Err(error) => return Some(Err(error)),
            };
            if let Some(incoming) = self.step(message).transpose() {
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
