//! Many guests at once: one thread, one poll, no guest can hold up another.
//!
//! ```text
//!   poll ─► console (kept in part)         host clock, 4 times a second:
//!        ─► qmp ──► balloon done ─► grant    virtual CPUs' run time ─► Look
//!        ─► port ─► hello, status, requests
//! ```
//!
//! A guest's bytes are read within a budget; a guest that does not read loses what
//! is sent to it; a guest that ends is a state, not an error.

mod ahead;
mod alarm;
mod balloon;
mod daemon;
mod dying;
mod event;
mod kvm;
mod life;
mod loads;
mod member;
mod member_config;
mod monitor;
mod open;
mod park;
mod park_clock;
mod parking;
mod room;
mod state;
mod suspend;
#[cfg(test)]
pub(crate) mod tests;
mod usage;
mod wanted;
mod watch;
mod worker;

pub use agent::Captured;
pub use event::Event;
pub use hypervisor::Usage;
pub use loads::{Load, load_script};
pub use member::Member;
pub use member_config::{Daemon, MemberConfig};
pub use park_clock::ParkRule;
pub use state::{State, Tally};

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

use ahead::Ahead;
use alarm::Alarm;
use life::Parkers;
use open::RunningGuest;
use parking::Parking;
use reactor::{PollFlags, PollSet, Ready};
use room::Room;
use suspend::remove_all;
use vm::{Clock, Error, GuestSpec};
use wanted::Wanted;
use wire::{Sample, ToGuest};
use worker::Worker;

use crate::links::Switch;
use crate::relay::Relay;
use crate::tiers::Tier;

/// How often the virtual CPUs of settled guests are looked at, in milliseconds. Together
/// with the daemon's own second it bounds how late a load is noticed.
const TICK_MS: u64 = agent::LOOK_MIN_MS;

/// Guests that may be parked in one tick: for each of them the kernel lists all connections of the
/// host.
const PARKS_A_TICK: usize = 8;

/// A set of guests that run together. Dropping it ends them.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    clock: Clock,
    /// How many boot at the same time: more would only make each of them slower.
    boots_max: usize,
    cpus: usize,
    next_tick_ms: u64,
    /// Who is looked at first when guests are parked: all come to it in turn.
    parks_next: usize,
    /// Who is parked, and is woken for a client in its turn.
    wanted: Wanted,
    ahead: Ahead,
    room: Room,
    /// The forwarded ports of guests that may be parked on disk.
    relay: Relay,
    parkers: Parkers,
}

/// Who owns a descriptor in the poll set of a fleet; others that add to it begin at `OTHERS`.
pub mod owner {
    pub(super) const CONSOLES: u64 = 0;
    pub(super) const MONITORS: u64 = 1;
    pub(super) const PORTS: u64 = 2;
    pub(super) const DYING: u64 = 3;
    pub(super) const CLIENTS: u64 = 4;
    pub(super) const MANAGERS: u64 = 5;
    pub(super) const PARKERS: u64 = 6;
    pub(super) const RELAY: u64 = 7;
    /// The first that is not the fleet's.
    pub const OTHERS: u64 = 8;
}

impl Fleet {
    /// Guests that are started as the turns go on, `boots_max` at a time.
    pub fn new(specs: Vec<GuestSpec>, boots_max: usize) -> Fleet {
        Fleet::of(specs.into_iter().map(MemberConfig::new).collect(), boots_max)
    }

    /// The same, for guests that are not alike.
    pub fn of(members: Vec<MemberConfig>, boots_max: usize) -> Fleet {
        let members = (0..).zip(members).map(|(at, config)| Member::new(at, config)).collect();
        let clock = Clock::new();
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let wanted = Wanted::new(cpus, clock.ms());
        let boots_max = boots_max.max(1);
        Fleet {
            members,
            clock,
            boots_max,
            cpus,
            next_tick_ms: 0,
            parks_next: 0,
            wanted,
            ahead: Ahead::default(),
            room: Room::default(),
            relay: Relay::default(),
            parkers: Parkers::default(),
        }
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

    /// Asks a guest's daemon how its memory is; see [`Member::agent`].
    pub fn sample(&mut self, guest: usize, sequence: u32) {
        if let Some(member) = self.members.get_mut(guest) {
            member.link.send(&ToGuest::Sample(Sample { sequence }));
        }
    }

    /// Parks a guest: an event says when it is. The error says why it cannot be now.
    pub fn park(&mut self, guest: usize) -> Result<(), String> {
        let Some(member) = self.members.get_mut(guest) else { return Ok(()) };
        if member.parking().is_some_and(Parking::is_awake) {
            // What was known of its timers may be over.
            member.suspension.alarm = Alarm::default();
        }
        member.park()
    }

    /// Lets a guest run that is parked. True if an event will say when it does.
    pub fn wake(&mut self, guest: usize) -> bool {
        let Some(member) = self.members.get_mut(guest) else { return false };
        member.wake();
        member.is_away() || member.parking().is_some_and(|parking| !parking.is_awake())
    }

    /// Somebody uses a guest, whatever its virtual CPUs do: it runs, and is not parked without
    /// being asked.
    pub fn keep_awake(&mut self, guest: usize) {
        let Some(member) = self.members.get_mut(guest) else { return };
        if let Some(running) = &mut member.running {
            running.parking.clock.is_used = true;
        }
        member.wake();
    }

    /// Leaves the guests' ports and balloons to a host manager, which finds them in the
    /// directory of their sockets. Their life stays ours. It is to find them awake.
    pub fn yield_to_other_manager(&mut self) {
        // Those on disk are its when they are back: nobody needs all of them at once.
        self.here().for_each(Member::wake);
        self.members.iter_mut().for_each(Member::yield_to_other_manager);
    }

    /// Takes ports and balloons back from a host manager that has ended. Who sleeps is to get
    /// what that one has taken, too.
    pub fn take_back(&mut self) {
        self.here().for_each(Member::wake);
        let now = self.clock.ms();
        self.members.iter_mut().for_each(|member| member.take_back(now));
    }

    /// Those that are not on disk alone.
    fn here(&mut self) -> impl Iterator<Item = &mut Member> {
        self.members.iter_mut().filter(|member| !member.is_away())
    }

    /// Writes to a guest's console, as its keyboard does. Says how many bytes it took: a guest
    /// that does not read is not waited for.
    pub fn type_console(&mut self, guest: usize, bytes: &[u8]) -> usize {
        self.wake(guest);
        let member = self.members.get_mut(guest);
        let Some(running) = member.and_then(|member| member.running.as_mut()) else { return 0 };
        running.console.write(bytes).unwrap_or(0)
    }

    /// The same fleet, with all guests' memory under one limit.
    #[must_use]
    pub fn under(mut self, tier: &Tier) -> Fleet {
        self.members.iter_mut().for_each(|member| member.shared.tier = tier.clone());
        self.room = Room::of(tier.cgroup());
        self
    }

    /// The same fleet, with its guests' links in this switch.
    #[must_use]
    pub fn linked(mut self, switch: &Switch) -> Fleet {
        self.members.iter_mut().for_each(|member| member.shared.switch = switch.clone());
        self
    }

    /// Ends all guests that run, all at once: what takes long is that each gives its memory back.
    /// Nobody is to go on from what is on disk.
    pub fn end(&mut self) {
        for running in self.members.iter_mut().filter_map(|member| member.running.as_mut()) {
            running.process.strike();
        }
        // What is written now lacks its QEMU, or is removed with the rest.
        self.parkers.saver.close();
        if let Some(file) = self.members.iter().find_map(|one| one.config.park_file.as_deref()) {
            remove_all(file);
        }
    }

    /// Waits for what comes next, at most until `until_ms`, and deals with it. Returns
    /// what of `others` is ready, and what happened to the guests.
    pub fn turn(
        &mut self,
        others: PollSet<'_>,
        until_ms: u64,
    ) -> Result<(Ready, Vec<Event>), Error> {
        let mut events = Vec::new();
        self.start_waiting(&mut events);
        let now = self.clock.ms();
        let wait_ms = until_ms.min(self.next_tick_ms).saturating_sub(now);
        let wait_ms = self.wanted.wait_ms().map_or(wait_ms, |most_ms| wait_ms.min(most_ms));
        let ready = self.wait(others, wait_ms)?;
        let now = self.clock.ms();
        for event in ready.of(owner::MANAGERS) {
            self.members[event.key as usize].wake();
        }
        self.wake_for_clients(&ready, now);
        if ready.has(owner::PARKERS) {
            self.parkers.all().for_each(Worker::drain);
        }
        for event in ready.of(owner::CONSOLES) {
            self.members[event.key as usize].read_console();
        }
        for event in ready.of(owner::MONITORS) {
            self.members[event.key as usize].speak_qmp(now);
        }
        for event in ready.of(owner::PORTS) {
            self.members[event.key as usize].speak_port(event.flags, now);
        }
        for event in ready.of(owner::DYING) {
            self.members[event.key as usize].bury(now);
        }
        if now >= self.next_tick_ms {
            self.next_tick_ms = now + TICK_MS;
            self.members.iter_mut().for_each(|member| member.tick(now));
            self.tick_parking(now);
        }
        for member in &mut self.members {
            member.page_out(&mut self.parkers.pager);
            member.turn_suspension(&mut self.parkers, now);
            events.append(&mut member.events);
        }
        Ok((ready, events))
    }

    /// Parks who has slept for long, and wakes who was parked for long.
    fn tick_parking(&mut self, now_ms: u64) {
        // Where nobody may be parked it makes no difference, and need not be read.
        let parks = self.members.iter().any(|member| member.config.park.after_ms.is_some());
        let is_short = parks && self.room.is_short(now_ms);
        let (first, count) = (self.parks_next, self.members.len());
        let mut left = PARKS_A_TICK;
        for at in (0..count).map(|step| (first + step) % count) {
            if self.members[at].is_due(now_ms) {
                // Two thousand may have a line of cron's at the same minute.
                if self.wanted.may_wake(is_short, now_ms) {
                    self.members[at].wake();
                    self.wanted.woke(now_ms);
                }
            } else if self.members[at].tick_parking(now_ms, is_short, left > 0) {
                left -= 1;
                if left == 0 {
                    self.parks_next = at + 1;
                }
            }
        }
    }

    /// Wakes those who are parked and whose clients have come, as many as may be now.
    fn wake_for_clients(&mut self, ready: &Ready, now_ms: u64) {
        for event in ready.of(owner::CLIENTS) {
            let guest = event.key as usize;
            if self.members[guest].running.as_mut().is_some_and(RunningGuest::client_came) {
                self.wanted.add(guest);
            }
        }
        if ready.has(owner::RELAY) {
            self.relay.drain();
            for (guest, member) in self.members.iter_mut().enumerate() {
                if member.suspension.client_came() {
                    self.wanted.add(guest);
                }
            }
        }
        // How much memory there is need not be read where nobody waits.
        while !self.wanted.is_empty()
            && let Some(guest) = self.wanted.next(self.room.is_short(now_ms), now_ms)
        {
            if self.members[guest].suspension.is_wanted {
                let member = &mut self.members[guest];
                member.wake();
                member.suspension.for_client_ms = Some(now_ms);
                if let Some(running) = &mut member.running {
                    running.parking.clock.wakes(Some(now_ms));
                }
                self.wanted.woke(now_ms);
                continue;
            }
            // Somebody else may have woken it meanwhile.
            let parking = self.members[guest].parking();
            let Some(parking) = parking.filter(|parking| parking.is_wanted()) else { continue };
            // Where there is no memory to spare, only what it really needs comes back, and where
            // there is no other CPU nobody can be faster than its own QEMU.
            let is_helped = parking.is_out() && !self.room.is_short(now_ms) && self.cpus > 1;
            self.members[guest].wake();
            self.wanted.woke(now_ms);
            if let Some(running) = &mut self.members[guest].running {
                running.parking.clock.wakes(Some(now_ms));
                if is_helped {
                    self.ahead.woken(running.process.id());
                }
            }
        }
    }

    fn start_waiting(&mut self, events: &mut Vec<Event>) {
        let now = self.clock.ms();
        let count = |is_it: &dyn Fn(&Member) -> bool| {
            self.members.iter().filter(|member| is_it(member)).count()
        };
        let booting = count(&Member::takes_a_boot);
        // Guests that are to be paged out come first, since they have what the next ones need; but
        // something boots however many they are.
        let leaving = count(&Member::has_rest);
        let most = self.boots_max.saturating_sub(leaving).max(1);
        let free = most.saturating_sub(booting);
        let waiting = self.members.iter_mut().filter(|m| m.state == State::Waiting);
        for member in waiting.take(free) {
            member.begin(&mut self.relay, &mut self.parkers, now);
        }
        self.members.iter_mut().for_each(|member| events.append(&mut member.events));
    }

    fn wait<'a>(&'a self, mut set: PollSet<'a>, wait_ms: u64) -> Result<Ready, Error> {
        let members = || self.members.iter().zip(0..);
        let running = || members().filter_map(|(one, key)| Some((key, one.running.as_ref()?)));
        set.owner(owner::CONSOLES);
        running()
            .map(|(key, one)| (key, one.console_fd()))
            .for_each(|(key, fd)| set.add(key, fd.0, fd.1));
        set.owner(owner::MONITORS);
        running()
            .map(|(key, one)| (key, one.qmp.fd()))
            .for_each(|(key, fd)| set.add(key, fd.0, fd.1));
        set.owner(owner::PORTS);
        for (member, key) in members().filter(|(member, _)| !member.is_left_alone()) {
            if let Some((connection, flags)) = member.link.connection() {
                set.connection(key, connection, flags);
            }
        }
        set.owner(owner::CLIENTS);
        running().for_each(|(key, one)| one.client_fds(key, &mut set));
        set.owner(owner::MANAGERS);
        running().for_each(|(key, one)| one.manager_fds(key, &mut set));
        set.owner(owner::PARKERS);
        self.parkers.all().filter_map(Worker::fd).for_each(|fd| set.add(0, fd, PollFlags::IN));
        set.owner(owner::RELAY);
        self.relay.fd().into_iter().for_each(|fd| set.add(0, fd, PollFlags::IN));
        set.owner(owner::DYING);
        members()
            .filter_map(|(one, key)| Some((key, one.dying.as_ref()?.fd()?)))
            .for_each(|(key, fd)| set.add(key, fd, PollFlags::IN));
        set.wait(wait_ms).map_err(|source| Error::Channel { channel: "poll", source })
    }
}
