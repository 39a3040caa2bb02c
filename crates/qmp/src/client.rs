//! One side of a QMP conversation, as a state machine.
//!
//! ```text
//!   greeting ─► we send qmp_capabilities ─► its return: Ready ─► commands, replies, events
//! ```
//!
//! Commands may be asked for at any time: those that come before the negotiation is over wait.

use std::collections::VecDeque;

use crate::{Command, Decoder, Error, Failure, Message, Reply, Timestamp, Value, Version};

/// How many commands may be open at once. QEMU answers one after the other, so more than a few
/// open commands mean that it hangs; then each tick of a manager would add to the queue forever.
pub const PENDING_MAX: usize = 64;

/// The id of the negotiation; those of commands follow.
const CAPABILITIES_ID: u64 = 0;

/// Names one command that was asked, to find its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// What [`Client::poll`] has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// The negotiation is over.
    Ready(Version),
    /// A command was answered.
    Reply {
        /// Which command.
        ticket: Ticket,
        /// What QEMU says. An answer of the wrong shape is a failure of the class
        /// [`Failure::MISSHAPEN`].
        outcome: Result<Reply, Failure>,
    },
    /// Something happened.
    Event {
        /// The event's name, such as `BALLOON_CHANGE`.
        name: String,
        /// The event's data; null for events without any.
        data: Value,
        /// The host's clock when it happened.
        timestamp: Timestamp,
    },
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Greeting,
    Negotiating(Version),
    Ready,
    /// The negotiation failed. Nothing more can come of this connection.
    Refused,
}

/// The state of one QMP connection. The caller moves bytes: what it reads goes into
/// [`feed`](Self::feed), what [`output`](Self::output) shows goes to the socket.
#[derive(Debug, Default)]
pub struct Client {
    decoder: Decoder,
    state: State,
    last_id: u64,
    open: VecDeque<(u64, Command)>,
    /// Commands that may not be sent before the negotiation is over.
    held_back: Vec<u8>,
    output: Vec<u8>,
}

impl Client {
    /// The state before the greeting.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a command. The ticket comes back with the reply.
    pub fn ask(&mut self, command: Command) -> Result<Ticket, Error> {
        if self.open.len() >= PENDING_MAX {
            return Err(Error::Backlog { limit: PENDING_MAX });
        }
        self.last_id += 1;
        let id = self.last_id;
        let line = command.encode(id);
        match self.state {
            State::Ready => self.output.extend(line),
            _ => self.held_back.extend(line),
        }
        self.open.push_back((id, command));
        Ok(Ticket(id))
    }

    /// The bytes that wait to be written to the socket.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Says that the first `written_bytes` of [`output`](Self::output) are written.
    pub fn advance(&mut self, written_bytes: usize) {
        self.output.drain(..written_bytes.min(self.output.len()));
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
        match message {
            Message::Greeting(version) => {
                // A second greeting changes nothing: QEMU greets once a connection.
                if matches!(self.state, State::Greeting) {
                    self.output.extend(Command::Capabilities.encode(CAPABILITIES_ID));
                    self.state = State::Negotiating(version);
                }
                Ok(None)
            }
            Message::Event { name, data, timestamp } => {
                Ok(Some(Incoming::Event { name, data, timestamp }))
            }
            Message::Return { id: Some(CAPABILITIES_ID), .. } => Ok(self.negotiated()),
            Message::Failure { id: Some(CAPABILITIES_ID), failure }
                if matches!(self.state, State::Negotiating(_)) =>
            {
                self.state = State::Refused;
                Err(Error::Refused { desc: failure.desc })
            }
            Message::Return { id, value } => {
                let (ticket, command) = self.close(id)?;
                // The answer is used up whatever it looks like: its asker must hear of it.
                let outcome = command.read_reply(&value).map_err(|error| Failure {
                    class: Failure::MISSHAPEN.to_owned(),
                    desc: error.to_string(),
                });
                Ok(Some(Incoming::Reply { ticket, outcome }))
            }
            Message::Failure { id, failure } => {
                let (ticket, _) = self.close(id)?;
                Ok(Some(Incoming::Reply { ticket, outcome: Err(failure) }))
            }
        }
    }

    fn negotiated(&mut self) -> Option<Incoming> {
        let State::Negotiating(version) = &self.state else { return None };
        let version = version.clone();
        self.state = State::Ready;
        self.output.append(&mut self.held_back);
        Some(Incoming::Ready(version))
    }

    /// Finds the command that an answer belongs to. Before the negotiation is over no command
    /// was sent, so an answer then belongs to none, whatever id it guesses.
    fn close(&mut self, id: Option<u64>) -> Result<(Ticket, Command), Error> {
        if !matches!(self.state, State::Ready) {
            return Err(Error::UnknownId { id });
        }
        let position = self.open.iter().position(|(open_id, _)| Some(*open_id) == id);
        let (id, command) =
            position.and_then(|index| self.open.remove(index)).ok_or(Error::UnknownId { id })?;
        Ok((Ticket(id), command))
    }
}
