//! The two ends of a connection that is passed on.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use reactor::{PollFlags, Users, is_passing};

use super::far::Far;

/// What is kept of one direction until its other end takes it.
const BUFFER: usize = 16 * 1024;

/// One direction.
#[derive(Debug)]
struct Half {
    buffer: Vec<u8>,
    /// What of the buffer was taken.
    taken: usize,
    /// Nothing more comes.
    is_over: bool,
    /// The other end was told so.
    is_told: bool,
}

impl Half {
    fn new() -> Half {
        Half { buffer: Vec::new(), taken: 0, is_over: false, is_told: false }
    }

    fn wants_to_read(&self) -> bool {
        !self.is_over && self.taken == self.buffer.len()
    }

    /// Nothing more goes this way.
    fn give_up(&mut self) -> usize {
        *self = Half { is_over: true, is_told: true, ..Half::new() };
        0
    }

    fn wants_to_write(&self) -> bool {
        self.taken < self.buffer.len()
    }

    /// Passes on what there is. Gives how many bytes came.
    fn pass(&mut self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<usize> {
        let mut came = 0;
        if self.wants_to_read() {
            self.buffer.resize(BUFFER, 0);
            self.taken = 0;
            let read = from.read(&mut self.buffer);
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => self.is_over = true,
                Ok(count) => came = count,
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        while self.wants_to_write() {
            match to.write(&self.buffer[self.taken..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.taken += count,
                Err(error) if is_passing(&error) => return Ok(came),
                Err(error) => return Err(error),
            }
        }
        // One that is idle keeps no memory.
        self.buffer = Vec::new();
        self.taken = 0;
        if self.is_over && !self.is_told {
            self.is_told = true;
            to.shutdown(Shutdown::Write)?;
        }
        Ok(came)
    }
}

/// A client and its guest.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) client: TcpStream,
    guest: TcpStream,
    far: Far,
    /// Port of the guest's end.
    port: u16,
    /// Whether the guest's end is known to be connected, to its own QEMU.
    is_connected: bool,
    to_guest: Half,
    to_client: Half,
}

impl Pair {
    pub(super) fn new(client: TcpStream, guest: TcpStream, far: Far, port: u16) -> Pair {
        let (to_guest, to_client) = (Half::new(), Half::new());
        Pair { client, guest, far, port, is_connected: false, to_guest, to_client }
    }

    /// What is waited for, at the client's end and at the guest's.
    pub(super) fn flags(&self) -> [PollFlags; 2] {
        if !self.is_connected {
            return [PollFlags::empty(), PollFlags::OUT];
        }
        let flags = |reads: &Half, writes: &Half| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads.wants_to_read());
            flags.set(PollFlags::OUT, writes.wants_to_write());
            flags
        };
        [flags(&self.to_guest, &self.to_client), flags(&self.to_client, &self.to_guest)]
    }

    pub(super) fn guest(&self) -> &TcpStream {
        &self.guest
    }

    /// Passes on what there is. Gives how many bytes came from the client and from its guest, and
    /// nothing if it is over.
    pub(super) fn pass(&mut self, users: &Users) -> Option<(usize, usize)> {
        if !self.is_connected {
            // What its end says is an error, or that it is connected.
            self.guest.take_error().ok().filter(Option::is_none)?;
            self.is_connected = self.far.listens(self.port, users);
            self.is_connected.then_some(())?;
        }
        // A guest that reads no more may have said something before, which its client is to get.
        let sent = self.to_guest.pass(&self.client, &self.guest);
        let sent = sent.unwrap_or_else(|_| self.to_guest.give_up());
        let got = self.to_client.pass(&self.guest, &self.client).ok()?;
        let is_over = self.to_guest.is_told && self.to_client.is_told;
        (!is_over).then_some((sent, got))
    }
}
