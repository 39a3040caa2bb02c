//! The connection to the monitor of a guest's QEMU.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use qmp::{Client, Command, Incoming, Ticket};
use reactor::{PollFlags, read_some, write_some};

/// QEMU's monitor: a nonblocking stream, and the messages on their way through it.
#[derive(Debug)]
pub(super) struct QmpLink {
    stream: UnixStream,
    client: Client,
}

impl QmpLink {
    pub(super) fn new(stream: UnixStream) -> io::Result<QmpLink> {
        stream.set_nonblocking(true)?;
        Ok(QmpLink { stream, client: Client::new() })
    }

    pub(super) fn into_parts(self) -> (UnixStream, Client) {
        (self.stream, self.client)
    }

    pub(super) fn fd(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = match self.client.output().is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        };
        (self.stream.as_fd(), flags)
    }

    /// Reads received bytes. [`next`](Self::next) returns the messages.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; 8192];
        let count = read_some(&mut self.stream, &mut buffer)?;
        self.client.feed(&buffer[..count]);
        Ok(())
    }

    pub(super) fn next(&mut self) -> Option<Incoming> {
        // An invalid line of QEMU is skipped, because the next line may be valid.
        std::iter::from_fn(|| self.client.poll()).find_map(Result::ok)
    }

    /// Queues a command, unless too many are open already.
    pub(super) fn ask(&mut self, command: Command) -> Option<Ticket> {
        self.client.ask(command).ok()
    }

    /// Sends queued bytes, as many as QEMU accepts.
    pub(super) fn send(&mut self) -> io::Result<()> {
        let sent = write_some(&mut self.stream, self.client.output())?;
        self.client.advance(sent);
        Ok(())
    }
}
