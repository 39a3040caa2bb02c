//! The client's side of a QMP conversation, as a state machine.
//!
//! ```text
//!   greeting ─► we send qmp_capabilities ─► its return: Ready ─► commands, replies, events
//! ```
//!
//! Commands may be queued at any time. Commands queued before the end of the negotiation wait.

use std::collections::VecDeque;

use crate::{Command, Decoder, Error, Failure, Message, Reply, Value};

/// The most commands that may be open at once. QEMU answers them in order, so more open commands
/// mean that QEMU hangs. Without a limit, each tick of a manager would make the queue longer.
pub const PENDING_MAX: usize = 64;

/// The id of the command that ends the negotiation. Later commands have larger ids.
const CAPABILITIES_ID: u64 = 0;

/// Identifies a command, to find its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// The result of [`Client::poll`].
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// The negotiation is complete.
    Ready,
    /// A command was answered.
    Reply {
        /// The ticket of the command.
        ticket: Ticket,
        /// QEMU's answer. A malformed answer is reported as a failure of the class
        /// [`Failure::MISSHAPEN`].
        outcome: Result<Reply, Failure>,
    },
    /// An event was reported.
    Event {
        /// The event's name, such as `BALLOON_CHANGE`.
        name: String,
        /// The event's data; null for events without any.
        data: Value,
    },
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Greeting,
    Negotiating,
    Ready,
    /// The negotiation failed. The connection is unusable.
    Refused,
}

/// The state of one QMP connection. The caller moves the bytes. It passes received bytes to
/// [`feed`](Self::feed), and writes [`output`](Self::output) to the socket.
#[derive(Debug, Default)]
pub struct Client {
    decoder: Decoder,
    state: State,
    last_id: u64,
    open: VecDeque<(u64, Command)>,
    /// Commands that may not be sent before the end of the negotiation.
    held_back: Vec<u8>,
    output: Vec<u8>,
}

impl Client {
    /// Creates the state before the greeting.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues a command. Its reply has the same ticket.
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

    /// Returns the bytes that wait to be written to the socket.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Marks the first `written_bytes` of [`output`](Self::output) as written.
    pub fn advance(&mut self, written_bytes: usize) {
        self.output.drain(..written_bytes.min(self.output.len()));
    }

    /// Stores bytes that were read from the socket. [`poll`](Self::poll) must be called until it
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
        match message {
            Message::Greeting => {
                // A second greeting is ignored, because QEMU greets only once per connection.
                if matches!(self.state, State::Greeting) {
                    self.output.extend(Command::Capabilities.encode(CAPABILITIES_ID));
                    self.state = State::Negotiating;
                }
                Ok(None)
            }
            Message::Event { name, data } => Ok(Some(Incoming::Event { name, data })),
            Message::Return { id: Some(CAPABILITIES_ID), .. } => Ok(self.negotiated()),
            Message::Failure { id: Some(CAPABILITIES_ID), failure }
                if matches!(self.state, State::Negotiating) =>
            {
                self.state = State::Refused;
                Err(Error::Refused { desc: failure.desc })
            }
            Message::Return { id, value } => {
                let (ticket, command) = self.close(id)?;
                // A malformed answer also closes its command, because the caller must get a result.
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
        let State::Negotiating = &self.state else { return None };
        self.state = State::Ready;
        self.output.append(&mut self.held_back);
        Some(Incoming::Ready)
    }

    /// Finds the command that an answer belongs to. No command is sent before the end of the
    /// negotiation, so an earlier answer belongs to no command, whatever its id is.
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
