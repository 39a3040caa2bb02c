//! Many guests at once: one thread, one poll, no guest can hold up another.
//!
//! ```text
//!   poll ─► console (kept in part)         host clock, 4 times a second:
//!        ─► qmp ──► balloon done ─► grant    virtual CPUs' run time ─► Look
//!        ─► port ─► hello, status, requests
//! ```
//!
//! A guest's bytes are taken within a budget; a guest that does not read loses what
//! is said to it; a guest that ends is a state, not an error.

mod capture;
mod daemon;
mod grant;
mod loads;
mod member;
mod naming;
mod open;
mod seat;
mod state;

pub use capture::Captured;
pub use grant::Floor;
pub use hypervisor::{Usage, parse_schedstat};
pub use loads::{Load, load_script};
pub use member::Member;
pub use seat::{Daemon, Seat};
pub use state::{State, Tally};

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Clock, Error, GuestSpec};

/// How often the virtual CPUs of settled guests are looked at, in milliseconds. Together
/// with the daemon's own second it bounds how late a load is noticed.
const TICK_MS: u64 = 250;

/// Something that happened in a turn.
#[derive(Debug)]
pub enum Event {
    /// The guest of this place said hello.
    Up(usize),
    /// The guest of this place starts anew, in the same QEMU.
    Reset(usize),
    /// The guest of this place has ended; its state says how.
    Ended(usize),
    /// A captured file is complete, or will never be.
    Captured {
        /// Whose file.
        guest: usize,
        /// The file.
        captured: Captured,
    },
}

/// A set of guests that run together. Dropping it ends them.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    clock: Clock,
    /// How many boot at the same time: more would only make each of them slower.
    boots_max: usize,
    next_tick_ms: u64,
}

/// Which connection of a guest a poll entry is.
#[derive(Clone, Copy)]
enum Channel {
    Console,
    Qmp,
    Port,
}

impl Fleet {
    /// Guests that are started as the turns go on, `boots_max` at a time.
    pub fn new(specs: Vec<GuestSpec>, floor: Floor, boots_max: usize) -> Fleet {
        let seat = |spec| Seat { spec, floor, daemon: Daemon::Expected };
        Fleet::of(specs.into_iter().map(seat).collect(), boots_max)
    }

    /// The same, for guests that are not alike.
    pub fn of(seats: Vec<Seat>, boots_max: usize) -> Fleet {
        let members = seats.into_iter().map(Member::new).collect();
        Fleet { members, clock: Clock::new(), boots_max: boots_max.max(1), next_tick_ms: 0 }
    }

    /// The guests, in the order they were given.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The control port of a guest that was started with one; only once.
    pub fn take_ctl(&mut self, guest: usize) -> Option<UnixStream> {
        self.members.get_mut(guest)?.take_ctl()
    }

    /// Milliseconds since the fleet was made.
    pub fn now_ms(&self) -> u64 {
        self.clock.ms()
    }

    /// Asks a guest's daemon for a file; the answer is an event with this number.
    pub fn capture(&mut self, guest: usize, file: wire::File) -> Option<u32> {
        let now = self.clock.ms();
        self.members.get_mut(guest)?.capture(file, now)
    }

    /// Asks a guest's daemon how its memory is; see [`Member::memory`].
    pub fn sample(&mut self, guest: usize, sequence: u32) {
        if let Some(member) = self.members.get_mut(guest) {
            member.sample(sequence);
        }
    }

    /// Leaves the guests' ports and balloons to a host manager, which finds them in the
    /// directory of their sockets. Their life stays ours.
    pub fn let_go(&mut self) {
        self.members.iter_mut().for_each(Member::let_go);
    }

    /// Takes ports and balloons back from a host manager that has ended.
    pub fn take_back(&mut self) {
        let now = self.clock.ms();
        self.members.iter_mut().for_each(|member| member.take_back(now));
    }

    /// Kills a guest's QEMU, as a test of what its end does to the others.
    pub fn kill(&mut self, guest: usize) {
        if let Some(member) = self.members.get_mut(guest) {
            member.kill();
        }
    }

    /// Waits for what comes next, at most until `until_ms`, and deals with it. Returns
    /// which of `others` can be read, and what happened to the guests.
    pub fn turn(
        &mut self,
        others: &[BorrowedFd<'_>],
        until_ms: u64,
    ) -> Result<(Vec<bool>, Vec<Event>), Error> {
        let mut events = Vec::new();
        self.start_waiting(&mut events);
        let now = self.clock.ms();
        let wait_ms = until_ms.min(self.next_tick_ms).saturating_sub(now);
        let (ready, seen) = self.wait(others, wait_ms)?;
        let now = self.clock.ms();
        for (index, channel, flags) in seen {
            let member = &mut self.members[index];
            match channel {
                Channel::Console => member.read_console(),
                Channel::Qmp => member.speak_qmp(now),
                Channel::Port => member.speak_port(flags, now),
            }
        }
        if now >= self.next_tick_ms {
            self.next_tick_ms = now + TICK_MS;
            self.members.iter_mut().for_each(|member| member.tick(now));
        }
        for (index, member) in self.members.iter_mut().enumerate() {
            member.drain(index, &mut events);
        }
        Ok((ready, events))
    }

    fn start_waiting(&mut self, events: &mut Vec<Event>) {
        let now = self.clock.ms();
        let booting = self.members.iter().filter(|m| m.is_booting()).count();
        let free = self.boots_max.saturating_sub(booting);
        let waiting = self.members.iter_mut().filter(|m| m.is_waiting());
        for member in waiting.take(free) {
            member.start(now);
        }
        for (index, member) in self.members.iter_mut().enumerate() {
            member.drain(index, events);
        }
    }

    #[allow(clippy::type_complexity, reason = "two lists, taken apart at the only call")]
    fn wait(
        &self,
        others: &[BorrowedFd<'_>],
        wait_ms: u64,
    ) -> Result<(Vec<bool>, Vec<(usize, Channel, PollFlags)>), Error> {
        let mut places = Vec::new();
        let mut fds: Vec<PollFd<'_>> =
            others.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        for (index, member) in self.members.iter().enumerate() {
            let Some(open) = member.open() else { continue };
            let channels = [
                (open.console.as_fd(), Channel::Console, open.console_flags()),
                (open.qmp.as_fd(), Channel::Qmp, open.qmp_flags()),
            ];
            let port = open.port.as_ref().map(|port| (port.as_fd(), Channel::Port, port.flags()));
            for (fd, channel, flags) in channels.into_iter().chain(port) {
                fds.push(PollFd::from_borrowed_fd(fd, flags));
                places.push((index, channel));
            }
        }
        let timeout = Timespec {
            tv_sec: (wait_ms / 1000) as i64,
            tv_nsec: (wait_ms % 1000) as i64 * 1_000_000,
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::Channel { channel: "poll", source: error.into() }),
        }
        let (mine, guests) = fds.split_at(others.len());
        let ready = mine.iter().map(|fd| !fd.revents().is_empty()).collect();
        let seen = guests.iter().zip(places).filter(|(fd, _)| !fd.revents().is_empty());
        let seen = seen.map(|(fd, (index, channel))| (index, channel, fd.revents())).collect();
        Ok((ready, seen))
    }
}
