//! Blocking QMP client, for tests, experiments and the command line.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use qmp::{Client, Command, Incoming, Reply, Ticket};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::deadline::read_before;
use crate::{Deadline, Error};

/// One connection to a guest's QEMU. Events are dropped.
#[derive(Debug)]
pub struct Monitor {
    stream: UnixStream,
    client: Client,
}

impl Monitor {
    /// Creates a monitor from this socket. Nothing is sent before the first command.
    pub fn new(stream: UnixStream) -> Monitor {
        Monitor { stream, client: Client::new() }
    }

    /// Creates a monitor from the connection of a nonblocking client.
    pub fn taken_over(stream: UnixStream, client: Client) -> Monitor {
        Monitor { stream, client }
    }

    /// Sends a command and waits for its answer.
    pub fn call(&mut self, command: Command, deadline: Deadline) -> Result<Reply, Error> {
        let name = command.name();
        let asked = self.client.ask(command)?;
        self.answer(name, asked, deadline)
    }

    /// Passes an open file to QEMU with this command, which gives the file a name for other
    /// commands.
    pub(crate) fn give_file(
        &mut self,
        command: Command,
        file: &File,
        deadline: Deadline,
    ) -> Result<(), Error> {
        // This call empties the send buffer, so that the next message contains only one command.
        // QEMU assigns the file to the command in the same message.
        self.call(Command::QueryStatus, deadline)?;
        let words = command.name();
        let asked = self.client.ask(command)?;
        let fds = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let output = [IoSlice::new(self.client.output())];
        let sent = sendmsg(&self.stream, &output, &mut control, SendFlags::NOSIGNAL);
        let sent = sent.map_err(|e| Error::Channel { channel: "qmp", source: e.into() })?;
        self.client.advance(sent);
        self.answer(words, asked, deadline).map(drop)
    }

    fn answer(
        &mut self,
        name: &'static str,
        asked: Ticket,
        deadline: Deadline,
    ) -> Result<Reply, Error> {
        let mut chunk = [0; 4096];
        loop {
            let sent = self.stream.write_all(self.client.output());
            sent.map_err(|source| Error::Channel { channel: "qmp", source })?;
            self.client.advance(self.client.output().len());
            let waiting_for = format_args!("QEMU's answer to {name}");
            let count = read_before(&mut self.stream, &mut chunk, deadline, "qmp", &waiting_for)?;
            self.client.feed(&chunk[..count]);
            // All messages are decoded, even after the awaited answer, so that no events or older
            // answers remain in the decoder.
            let mut found = None;
            while let Some(incoming) = self.client.poll() {
                if let Incoming::Reply { ticket, outcome } = incoming?
                    && ticket == asked
                {
                    found = Some(outcome);
                }
            }
            if let Some(outcome) = found {
                let refused =
                    |failure: qmp::Failure| Error::QmpRefused { command: name, desc: failure.desc };
                return outcome.map_err(refused);
            }
        }
    }
}
