//! QMP for callers that may wait: tests, experiments, the command line.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use qmp::{Client, Command, Incoming, Reply, Ticket};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::deadline::read_before;
use crate::{Deadline, Error};

/// One connection to a guest's QEMU. Events are not kept.
#[derive(Debug)]
pub struct Monitor {
    stream: UnixStream,
    client: Client,
}

impl Monitor {
    /// Speaks through this socket. Nothing is sent before the first command.
    pub fn new(stream: UnixStream) -> Monitor {
        Monitor { stream, client: Client::new() }
    }

    /// Goes on where another client has stopped that did not wait.
    pub fn taken_over(stream: UnixStream, client: Client) -> Monitor {
        Monitor { stream, client }
    }

    /// Gives a command and waits for its answer.
    pub fn call(&mut self, command: Command, deadline: Deadline) -> Result<Reply, Error> {
        let name = command.name();
        let asked = self.client.ask(command)?;
        self.answer(name, asked, deadline)
    }

    /// Gives QEMU an open file by this command, which names it for others.
    pub(crate) fn give_file(
        &mut self,
        command: Command,
        file: &File,
        deadline: Deadline,
    ) -> Result<(), Error> {
        // What waits to be sent is this command alone: it is the one that the file comes with.
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
            // All of them, also past the one that is waited for: the rest is older answers' and
            // events' place in the decoder.
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
