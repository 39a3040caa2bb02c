//! Many guests on one thread with one poll call. No guest can delay another guest.
//!
//! ```text
//!   poll ─► console (kept in part)         host clock, 4 times a second:
//!        ─► qmp ──► balloon done ─► grant    virtual CPUs' run time ─► Look
//!        ─► port ─► hello, status, requests
//! ```
//!
//! A guest's bytes are read within a budget. A guest that does not read loses the data sent to it.
//! The end of a guest is a state, not an error.

mod ahead;
mod alarm;
mod balloon;
mod daemon;
mod dying;
mod event;
mod fault;
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
mod refusal;
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
pub use refusal::Refusal;
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

/// Interval between two checks of the vCPUs of settled guests, in milliseconds. A load is noticed
/// after at most this interval plus the daemon's interval of one second.
const TICK_MS: u64 = agent::LOOK_MIN_MS;

/// Limit on attempts to park in one tick, because the kernel lists all connections of the host for
/// each attempt.
const PARKS_A_TICK: usize = 8;

/// A set of guests that run together. Dropping the fleet ends its guests.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    clock: Clock,
    /// Limit on simultaneous boots. A higher limit would only make each boot slower.
    boots_max: usize,
    cpus: usize,
    next_tick_ms: u64,
    /// Index of the first guest to check for parking. The index advances in each tick, so that
    /// every guest gets its turn.
    parks_next: usize,
    /// Queue of parked guests that clients wait for.
    wanted: Wanted,
    ahead: Ahead,
    room: Room,
    /// The forwarded ports of guests that may be parked on disk.
    relay: Relay,
    parkers: Parkers,
}

/// Owners of descriptors in a fleet's poll set. The numbers of other users of the set start at
/// `OTHERS`.
pub mod owner {
    pub(super) const CONSOLES: u64 = 0;
    pub(super) const MONITORS: u64 = 1;
    pub(super) const PORTS: u64 = 2;
    pub(super) const DYING: u64 = 3;
    pub(super) const CLIENTS: u64 = 4;
    pub(super) const PARKERS: u64 = 5;
    pub(super) const RELAY: u64 = 6;
    /// First owner outside the fleet.
    pub const OTHERS: u64 = 7;
}

impl Fleet {
    /// Creates a fleet that starts its guests turn by turn, `boots_max` at a time.
    pub fn new(specs: Vec<GuestSpec>, boots_max: usize) -> Fleet {
        Fleet::of(specs.into_iter().map(MemberConfig::new).collect(), boots_max)
    }

    /// Creates a fleet of guests with different configurations.
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

    /// Returns the guests in their original order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the control port of a guest, if the guest has a control port. Later calls return
    /// `None`.
    pub fn take_ctl(&mut self, guest: usize) -> Option<UnixStream> {
        self.members.get_mut(guest)?.take_ctl()
    }

    /// Returns the milliseconds since the fleet was created.
    pub fn now_ms(&self) -> u64 {
        self.clock.ms()
    }

    /// Requests from a guest's daemon the files that the guest's rules read. The response is an
    /// event with the returned number. Returns `None` without a daemon.
    pub fn capture(&mut self, guest: usize) -> Option<u32> {
        let now = self.clock.ms();
        // A daemon that was resumed has not said hello to the new QEMU yet.
        let member = self.members.get_mut(guest).filter(|member| member.state == State::Up);
        member?.link.ask_files(now)
    }

    /// Requests memory statistics from a guest's daemon; see [`Member::agent`].
    pub fn sample(&mut self, guest: usize, sequence: u32) {
        if let Some(member) = self.members.get_mut(guest) {
            member.link.send(&ToGuest::Sample(Sample { sequence }));
        }
    }

    /// Starts to park a guest. A later event reports that the guest is parked, or runs again.
    pub fn park(&mut self, guest: usize) -> Result<(), Refusal> {
        let Some(member) = self.members.get_mut(guest) else { return Ok(()) };
        if member.parking().is_some_and(Parking::is_awake) {
            // The last answer about the guest's timers may be out of date.
            member.suspension.alarm = Alarm::default();
        }
        member.park()
    }

    /// Wakes a parked guest. Returns true if an event will report that the guest runs.
    pub fn wake(&mut self, guest: usize) -> bool {
        let Some(member) = self.members.get_mut(guest) else { return false };
        member.wake();
        member.is_away() || member.parking().is_some_and(|parking| !parking.is_awake())
    }

    /// Marks a guest as in use, even if its vCPUs are idle. The guest is woken, and its rule does
    /// not park it.
    pub fn keep_awake(&mut self, guest: usize) {
        let Some(member) = self.members.get_mut(guest) else { return };
        if let Some(running) = &mut member.running {
            running.parking.clock.is_used = true;
        }
        member.wake();
    }

    /// Leaves the guests' ports and balloons to a host manager, which finds the guests in the
    /// directory of their sockets. Starting and ending guests stays with the fleet. The manager
    /// gets a parked guest once that guest runs again.
    pub fn yield_to_other_manager(&mut self) {
        self.members.iter_mut().for_each(Member::yield_to_other_manager);
    }

    /// Records a guest's next timer, as reported by the host manager.
    pub fn timer_is(&mut self, guest: &str, in_ms: Option<u64>) {
        let now = self.clock.ms();
        let mut members = self.members.iter_mut();
        if let Some(member) = members.find(|member| member.spec().name == guest) {
            member.suspension.alarm.was_told(in_ms, now);
        }
    }

    /// Records the status of a guest's daemon, as reported by the manager that has its port.
    pub fn status_is(&mut self, guest: &str, status: &wire::Status) {
        let mut members = self.members.iter_mut();
        if let Some(member) = members.find(|member| member.spec().name == guest) {
            member.counting.add(status);
        }
    }

    /// Takes ports and balloons back from a host manager that has ended. When a parked guest is
    /// woken, the guest gets back the memory that the manager reclaimed.
    pub fn take_back(&mut self) {
        let now = self.clock.ms();
        self.members.iter_mut().for_each(|member| member.take_back(now));
    }

    /// Writes keyboard input to a guest's console, without waiting for a guest that does not read.
    /// Returns the number of bytes accepted.
    pub fn type_console(&mut self, guest: usize, bytes: &[u8]) -> usize {
        self.wake(guest);
        let member = self.members.get_mut(guest);
        let Some(running) = member.and_then(|member| member.running.as_mut()) else { return 0 };
        running.console.write(bytes).unwrap_or(0)
    }

    /// Puts the memory of all guests under one limit.
    #[must_use]
    pub fn under(mut self, tier: &Tier) -> Fleet {
        self.members.iter_mut().for_each(|member| member.shared.tier = tier.clone());
        self.room = Room::of(tier.cgroup());
        self
    }

    /// Connects the guests' links to this switch.
    #[must_use]
    pub fn linked(mut self, switch: &Switch) -> Fleet {
        self.members.iter_mut().for_each(|member| member.shared.switch = switch.clone());
        self
    }

    /// Ends all running guests at the same time, because each of them needs long to free its
    /// memory. Park files are removed, because no guest will resume from them.
    pub fn end(&mut self) {
        for running in self.members.iter_mut().filter_map(|member| member.running.as_mut()) {
            running.process.strike();
        }
        // A park file that is being written fails without the guest's QEMU, or is removed below.
        self.parkers.saver.close();
        if let Some(file) = self.members.iter().find_map(|one| one.config.park_file.as_deref()) {
            remove_all(file);
        }
    }

    /// Waits for the next events, at most until `until_ms`, and handles them. Returns the ready
    /// descriptors of `others`, and the guests' events.
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
        self.wake_for_clients(&ready, now);
        if ready.has(owner::PARKERS) {
            self.parkers.all_mut().for_each(Worker::drain);
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

    /// Parks guests that were idle for long, and wakes parked guests that are due.
    fn tick_parking(&mut self, now_ms: u64) {
        // Without a park rule a memory shortage changes nothing, so the host's memory is not read.
        let parks = self.members.iter().any(|member| member.config.park.after_ms.is_some());
        let is_short = parks && self.room.is_short(now_ms);
        let (first, count) = (self.parks_next, self.members.len());
        let mut left = PARKS_A_TICK;
        for at in (0..count).map(|step| (first + step) % count) {
            if self.members[at].is_due(now_ms) {
                // The same cron minute may be due in two thousand guests, so the number of wake-ups
                // is limited here too.
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

    /// Wakes parked guests that clients wait for, as many as may wake now.
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
        // The host's memory is read only if a guest waits.
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
            // Another request may have woken the guest meanwhile.
            let parking = self.members[guest].parking();
            let Some(parking) = parking.filter(|parking| parking.is_wanted()) else { continue };
            // On a host short of memory only the pages that the guest touches may be paged in. With
            // a single CPU, a prefetch is no faster than the guest's own page-ins.
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
        // Guests with memory left to page out have priority, because the next boots need that
        // memory. One boot at a time is always allowed.
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
