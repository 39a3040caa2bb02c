//! Terminals that are attached to guests' consoles.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use manager::control::Failure;
use reactor::{Event, Lookup, PollSet, is_passing};
use rustix::event::PollFlags;

use super::peer::drain_into;
use crate::fleet::Fleet;

/// Maximum number of attached terminals. Users have only a few screens.
const ATTACHED_MAX: usize = 32;
/// Maximum output, in bytes, kept for a terminal that does not read. Beyond this limit the oldest
/// output is dropped, so that the guest never waits.
const UNREAD_MAX: usize = 256 * 1024;
/// Maximum input, in bytes, kept for a guest that does not read its keyboard.
const UNTYPED_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Consoles(Vec<Attached>);

#[derive(Debug)]
struct Attached {
    stream: UnixStream,
    guest: usize,
    /// Number of the console's bytes that were sent to the terminal, or written before the terminal
    /// was attached.
    seen: u64,
    unread: Vec<u8>,
    untyped: Vec<u8>,
    is_gone: bool,
}

impl Consoles {
    pub(super) fn has_room(&self) -> Result<(), Failure> {
        match self.0.len() {
            0..ATTACHED_MAX => Ok(()),
            _ => Err(Failure::new(format!(
                "{ATTACHED_MAX} terminals are attached, which is the maximum: detach one"
            ))),
        }
    }

    /// Attaches a terminal. The terminal gets the bytes in `unread`, and then the console's output
    /// after its first `from` bytes.
    pub(super) fn attach(
        &mut self,
        guest: usize,
        stream: UnixStream,
        from: u64,
        mut unread: Vec<u8>,
    ) {
        let is_gone = !drain_into(&stream, &mut unread);
        let untyped = Vec::new();
        self.0.push(Attached { stream, guest, seen: from, unread, untyped, is_gone });
    }

    pub(super) fn attached(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|attached| attached.guest)
    }

    pub(super) fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        for (key, attached) in (0..).zip(&self.0) {
            set.add(key, attached.stream.as_fd(), PollFlags::IN);
        }
    }

    /// Moves bytes in both directions, and drops closed terminals.
    pub(super) fn turn(&mut self, ready: &[Event], fleet: &mut Fleet) {
        let mut ready = Lookup::new(ready);
        for (key, attached) in (0..).zip(&mut self.0) {
            if !ready.flags(key).is_empty() {
                attached.read_keys();
            }
            attached.exchange(fleet);
        }
        self.0.retain(|attached| !attached.is_gone);
    }
}

impl Attached {
    fn read_keys(&mut self) {
        let room = UNTYPED_MAX.saturating_sub(self.untyped.len());
        let mut chunk = [0; UNTYPED_MAX];
        match self.stream.read(&mut chunk[..room.max(1)]) {
            Ok(0) => self.is_gone = true,
            Ok(count) if room > 0 => self.untyped.extend_from_slice(&chunk[..count]),
            // The guest has left 4 KiB unread, so further keys are lost, as on any keyboard.
            Ok(_) => {}
            Err(error) => self.is_gone = !is_passing(&error),
        }
    }

    fn exchange(&mut self, fleet: &mut Fleet) {
        if !self.untyped.is_empty() {
            let typed = fleet.type_console(self.guest, &self.untyped);
            self.untyped.drain(..typed);
        }
        let member = &fleet.members()[self.guest];
        self.unread.extend_from_slice(member.console_since(self.seen));
        self.seen = member.console_end();
        let excess = self.unread.len().saturating_sub(UNREAD_MAX);
        self.unread.drain(..excess);
        self.is_gone |= !drain_into(&self.stream, &mut self.unread);
        self.is_gone |= member.pid().is_none() && !member.is_away();
    }
}
