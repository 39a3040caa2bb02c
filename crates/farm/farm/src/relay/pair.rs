//! The two ends of a relayed connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use reactor::{PollFlags, Users, is_passing};

use super::far::Far;

/// Size of the buffer of one direction.
const BUFFER: usize = 16 * 1024;

#[derive(Debug)]
struct Half {
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that were written to the destination.
    taken: usize,
    /// True once the source has sent all of its data and closed its side.
    is_over: bool,
    /// True once the destination was notified of this end.
    is_told: bool,
}

impl Half {
    fn new() -> Half {
        Half { buffer: Vec::new(), taken: 0, is_over: false, is_told: false }
    }

    fn wants_to_read(&self) -> bool {
        !self.is_over && self.taken == self.buffer.len()
    }

    /// Ends this direction.
    fn give_up(&mut self) -> usize {
        *self = Half { is_over: true, is_told: true, ..Half::new() };
        0
    }

    fn wants_to_write(&self) -> bool {
        self.taken < self.buffer.len()
    }

    /// Relays the available data. Returns the number of bytes read.
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
        // An idle direction keeps no buffer.
        self.buffer = Vec::new();
        self.taken = 0;
        if self.is_over && !self.is_told {
            self.is_told = true;
            to.shutdown(Shutdown::Write)?;
        }
        Ok(came)
    }
}

#[derive(Debug)]
pub(super) struct Pair {
    pub(super) client: TcpStream,
    guest: TcpStream,
    far: Far,
    port: u16,
    /// True once the connection on the guest's side is known to lead to the guest's own QEMU.
    is_connected: bool,
    to_guest: Half,
    to_client: Half,
}

impl Pair {
    pub(super) fn new(client: TcpStream, guest: TcpStream, far: Far, port: u16) -> Pair {
        let (to_guest, to_client) = (Half::new(), Half::new());
        Pair { client, guest, far, port, is_connected: false, to_guest, to_client }
    }

    /// Returns the poll flags of the client's end and the guest's end.
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

    /// Relays the available data. Returns the number of bytes from the client and from the guest,
    /// or `None` at the end of the connection.
    pub(super) fn pass(&mut self, users: &Users) -> Option<(usize, usize)> {
        if !self.is_connected {
            // A ready socket is either connected or has an error.
            self.guest.take_error().ok().filter(Option::is_none)?;
            self.is_connected = self.far.listens(self.port, users);
            self.is_connected.then_some(())?;
        }
        // A guest that no longer reads may have sent data earlier. The guest's client must get this
        // data.
        let sent = self.to_guest.pass(&self.client, &self.guest);
        let sent = sent.unwrap_or_else(|_| self.to_guest.give_up());
        let got = self.to_client.pass(&self.guest, &self.client).ok()?;
        let is_over = self.to_guest.is_told && self.to_client.is_told;
        (!is_over).then_some((sent, got))
    }
}
