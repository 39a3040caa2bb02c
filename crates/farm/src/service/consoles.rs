//! Terminals that are attached to guests' consoles.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::{drain_into, is_passing};
use crate::fleet::Fleet;

/// Terminals at the same time: people have few screens.
const ATTACHED_MAX: usize = 32;
/// What is kept for a terminal that does not read; the guest goes on, and its oldest words go.
const UNREAD_MAX: usize = 256 * 1024;
/// What is kept for a guest that does not read its keyboard.
const UNTYPED_MAX: usize = 4096;

/// All terminals.
#[derive(Debug, Default)]
pub(super) struct Consoles {
    attached: Vec<Attached>,
    polled: usize,
}

#[derive(Debug)]
struct Attached {
    stream: UnixStream,
    guest: usize,
    /// How much of the console it has been given.
    seen: u64,
    unread: Vec<u8>,
    untyped: Vec<u8>,
    is_gone: bool,
}

impl Consoles {
    /// Attaches a terminal; it sees what the console says from here on.
    pub(super) fn attach(
        &mut self,
        guest: usize,
        stream: UnixStream,
        from: u64,
    ) -> Result<(), String> {
        if self.attached.len() >= ATTACHED_MAX {
            return Err(format!("{ATTACHED_MAX} terminals are attached already"));
        }
        let (unread, untyped) = (Vec::new(), Vec::new());
        self.attached.push(Attached { stream, guest, seen: from, unread, untyped, is_gone: false });
        Ok(())
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.attached.iter().map(|attached| attached.stream.as_fd())
    }

    /// How many of the last [`Consoles::fds`] were ours.
    pub(super) fn polled(&self) -> usize {
        self.polled
    }

    /// Moves bytes both ways.
    pub(super) fn turn(&mut self, ready: &[bool], fleet: &mut Fleet) {
        for (place, attached) in self.attached.iter_mut().enumerate() {
            if ready.get(place) == Some(&true) && place < self.polled {
                attached.read_keys();
            }
            attached.exchange(fleet);
        }
    }

    /// Forgets who has gone; from here on the list is that of the next poll.
    pub(super) fn settle(&mut self) {
        self.attached.retain(|attached| !attached.is_gone);
        self.polled = self.attached.len();
    }
}

impl Attached {
    fn read_keys(&mut self) {
        let room = UNTYPED_MAX.saturating_sub(self.untyped.len());
        let mut chunk = [0; UNTYPED_MAX];
        match self.stream.read(&mut chunk[..room.max(1)]) {
            Ok(0) => self.is_gone = true,
            Ok(count) if room > 0 => self.untyped.extend_from_slice(&chunk[..count]),
            // The guest has not read for 4 KiB: a key more is lost, as on any keyboard.
            Ok(_) => {}
            Err(error) => self.is_gone = !is_passing(&error),
        }
    }

    fn exchange(&mut self, fleet: &mut Fleet) {
        if !self.untyped.is_empty() {
            let typed = fleet.type_console(self.guest, &self.untyped);
            self.untyped.drain(..typed);
        }
        let Some(member) = fleet.members().get(self.guest) else { return };
        self.unread.extend_from_slice(member.console_since(self.seen));
        self.seen = member.console_end();
        let excess = self.unread.len().saturating_sub(UNREAD_MAX);
        self.unread.drain(..excess);
        self.is_gone |= !drain_into(&self.stream, &mut self.unread);
        self.is_gone |= member.pid().is_none();
    }
}
