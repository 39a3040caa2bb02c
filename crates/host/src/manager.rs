//! The manager: one thread, one poll, all guests.
//!
//! ```text
//!   sources (QMP, libvirt) ─► events ─┐                          ┌─► set_target, Grant
//!   daemons' ports ─► Memory, Need ───┼─► Guest ─► pass ─► PolicyEngine ─┼─► journal, keeper
//!   control socket ─► requests ───────┘    ▲                     └─► answers
//!   4 times a second: virtual CPUs' run time; once an interval: samples of those that ran
//! ```
//!
//! Nothing here waits but the poll. A guest that hangs, floods or lies is one guest's trouble.

use crate::attach::Attachments;
use crate::clock::Clock;
use crate::config::{Loaded, Place, Settings};
use crate::control::Server;
use crate::feed::Feed;
use crate::guest::Guest;
use crate::ksm::Ksm;
use crate::lease::Lease;
use crate::machine::{Machine, MachineReader};
use crate::monitor::Monitor;
use crate::pass::{HostRates, engines};
use crate::policy_engine::PolicyEngine;
use crate::requests::{Override, Waiting};
use crate::scan::Scans;
use crate::{Error, book};
use counters::Bytes;
use hypervisor::{Hypervisor, Id};
use reactor::{PollSet, Ready};
use rustix::event::PollFlags;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use store::{Writer, kinds};

/// How often virtual CPUs' run time is looked at.
pub(crate) const TICK_MS: u64 = 250;
/// How long a pass waits for samples that were asked for.
const PATIENCE_MS: u64 = 200;
/// Passes that a need calls for are at least this far apart.
const URGENT_MS: u64 = 100;
/// Nothing is moved before the guests were looked at for this long: the state of the world
/// comes first.
const SETTLE_MS: u64 = 2_000;

/// KSM, the lease's beat and the journal's age are looked at this often.
const SLOW_MS: u64 = 1_000;

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Decide and journal, and touch nothing.
    pub dry_run: bool,
    /// End after so long.
    pub for_ms: Option<u64>,
}

/// What wakes the manager from outside.
#[derive(Clone, Copy, Debug)]
pub struct Signals<'a> {
    /// Readable when it is to end.
    pub stop: BorrowedFd<'a>,
    /// Readable when its configuration is to be read again.
    pub reload: BorrowedFd<'a>,
}

/// What a turn was ended by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Go on.
    On,
    /// It was told to end.
    Stop,
    /// It was told to read its configuration again.
    Reload,
}

/// The manager of all guests of a host.
pub struct Manager {
    pub(crate) clock: Clock,
    pub(crate) options: Options,
    pub(crate) place: Place,
    pub(crate) config_path: Option<PathBuf>,
    pub(crate) settings: Settings,
    pub(crate) sources: Vec<Box<dyn Hypervisor>>,
    pub(crate) guests: BTreeMap<Id, Guest>,
    pub(crate) engine: PolicyEngine,
    pub(crate) shadow: Option<(PolicyEngine, Settings)>,
    pub(crate) overrides: BTreeMap<Id, Override>,
    pub(crate) reader: MachineReader,
    pub(crate) machine: Option<(Machine, u64)>,
    pub(crate) rates: HostRates,
    pub(crate) journal: Writer,
    pub(crate) control: Server,
    pub(crate) lease: Lease,
    pub(crate) ksm: Ksm,
    pub(crate) monitor: Option<Monitor>,
    pub(crate) feed: Feed,
    pub(crate) attachments: Attachments,
    pub(crate) waiting: BTreeMap<u64, Waiting>,
    pub(crate) scans: Scans,
    pub(crate) reservations: u64,
    pub(crate) arrivals: u64,
    /// What is to be said on the terminal or to the log, once.
    pub(crate) said: Vec<String>,
    pub(crate) troubles: BTreeMap<usize, String>,
    pub(crate) passes: u64,
    pub(crate) pass_us: Option<u64>,
    pub(crate) start_ms: u64,
    pub(crate) next_prune_ms: u64,
    pub(crate) next_look_ms: u64,
    pub(crate) greeted: bool,
    next_tick_ms: u64,
    next_ask_ms: u64,
    next_slow_ms: u64,
    pub(crate) pass_ms: Option<u64>,
    last_pass_ms: u64,
}

/// What a manager is made of.
pub struct Parts {
    /// Its clock.
    pub clock: Clock,
    /// How to run.
    pub options: Options,
    /// What defaults depend on.
    pub place: Place,
    /// The file of settings, if one was named.
    pub config_path: Option<PathBuf>,
    /// The settings, with those of a shadow policy.
    pub loaded: Loaded,
    /// Where guests come from.
    pub sources: Vec<Box<dyn Hypervisor>>,
    /// The host's counters.
    pub reader: MachineReader,
    /// The record of decisions.
    pub journal: Writer,
    /// The socket.
    pub control: Server,
    /// What holds if this process ends.
    pub lease: Lease,
    /// The kernel's page sharing.
    pub ksm: Ksm,
    /// What records, if anything does.
    pub monitor: Option<Monitor>,
}

/// Who owns a descriptor in the manager's poll set; sources follow each other from the last.
mod owner {
    pub(super) const STOP: u64 = 0;
    pub(super) const RELOAD: u64 = 1;
    pub(super) const PORTS: u64 = 2;
    pub(super) const ATTACHMENTS: u64 = 3;
    pub(super) const CONTROL: u64 = 4;
    pub(super) const FEED: u64 = 5;
    pub(super) const SOURCES: u64 = 6;
}

impl Manager {
    /// A manager that has looked at its host, and knows no guest yet.
    pub fn new(parts: Parts) -> Result<Manager, Error> {
        let (engine, shadow) = engines(&parts.loaded, parts.options, Bytes::ZERO)?;
        let now = parts.clock.ms();
        let (feed, trouble) = Feed::open(&parts.loaded.settings.metrics);
        let mut manager = Manager {
            clock: parts.clock,
            options: parts.options,
            place: parts.place,
            config_path: parts.config_path,
            settings: parts.loaded.settings,
            sources: parts.sources,
            guests: BTreeMap::new(),
            engine,
            shadow,
            overrides: BTreeMap::new(),
            reader: parts.reader,
            machine: None,
            rates: HostRates::default(),
            journal: parts.journal,
            control: parts.control,
            lease: parts.lease,
            ksm: parts.ksm,
            scans: Scans::default(),
            monitor: parts.monitor,
            feed,
            attachments: Attachments::default(),
            waiting: BTreeMap::new(),
            reservations: 0,
            arrivals: 0,
            said: trouble.into_iter().collect(),
            troubles: BTreeMap::new(),
            passes: 0,
            pass_us: None,
            start_ms: now,
            next_prune_ms: now,
            next_look_ms: now,
            greeted: false,
            next_tick_ms: now,
            next_ask_ms: now,
            next_slow_ms: now,
            pass_ms: None,
            last_pass_ms: now,
        };
        manager.scans.minutely = manager.monitor.as_ref().is_some_and(Monitor::records);
        manager.read_machine(now);
        manager.configure();
        manager.note(kinds::MANAGER_START, "the manager has started", None);
        Ok(manager)
    }

    /// One turn: waits for what comes next, at most until something is due, and deals with it.
    pub fn turn(&mut self, signals: &Signals<'_>) -> Result<Turn, Error> {
        let now = self.clock.ms();
        let due = [self.next_tick_ms, self.next_ask_ms, self.pass_ms.unwrap_or(u64::MAX)];
        let sources = self.sources.iter().map(|source| source.next_ms());
        let due = due
            .into_iter()
            .chain(sources)
            .chain([self.control.next_ms(), self.feed.next_ms()])
            .min();
        let wait_ms = due.unwrap_or(now).saturating_sub(now).min(TICK_MS);
        let wait_ms = if self.clock.is_by_hand() { 0 } else { wait_ms };
        let ready = self.wait(signals, wait_ms)?;
        let turn = match (ready.has(owner::STOP), ready.has(owner::RELOAD)) {
            (true, _) => Turn::Stop,
            (_, true) => Turn::Reload,
            _ => Turn::On,
        };
        let now = self.clock.ms();
        self.hear(&ready, now);
        if now >= self.next_tick_ms {
            self.next_tick_ms = now + TICK_MS;
            self.tick(now);
        }
        if now >= self.next_ask_ms {
            self.next_ask_ms = now + self.settings.host.interval_ms;
            self.ask(now);
        }
        self.pass_if_due(now);
        if now >= self.next_slow_ms {
            self.next_slow_ms = now + SLOW_MS;
            self.slow(now);
        }
        Ok(turn)
    }

    fn wait(&self, signals: &Signals<'_>, wait_ms: u64) -> Result<Ready, Error> {
        let mut set = PollSet::new();
        set.owner(owner::STOP).add(0, signals.stop, PollFlags::IN);
        set.owner(owner::RELOAD).add(0, signals.reload, PollFlags::IN);
        set.owner(owner::PORTS);
        for guest in self.guests.values() {
            if let Some((fd, flags)) = guest.inside.fd() {
                set.add(guest.id.0, fd, flags);
            }
        }
        let mut attachments = Vec::new();
        self.attachments.fds(&mut attachments);
        set.owner(owner::ATTACHMENTS);
        attachments.into_iter().for_each(|(fd, flags)| set.add(0, fd, flags));
        self.control.fds(set.owner(owner::CONTROL));
        self.feed.fds(set.owner(owner::FEED));
        for (at, source) in self.sources.iter().enumerate() {
            source.fds(set.owner(owner::SOURCES + at as u64));
        }
        set.wait(wait_ms).map_err(|source| Error::Poll { source })
    }

    fn hear(&mut self, ready: &Ready, now: u64) {
        for index in 0..self.sources.len() {
            let own = ready.of(owner::SOURCES + index as u64);
            if own.is_empty() && now < self.sources[index].next_ms() {
                continue;
            }
            let mut events = Vec::new();
            self.sources[index].turn(Some(own), now, &mut events);
            events.into_iter().for_each(|event| self.take(index, event, now));
        }
        for port in ready.of(owner::PORTS) {
            let id = Id(port.key);
            let Some(guest) = self.guests.get_mut(&id) else { continue };
            let memory = guest.found.memory;
            let said = guest.inside.turn(port.flags, memory, now);
            said.into_iter().for_each(|said| self.heard(id, said, now));
        }
        if ready.has(owner::ATTACHMENTS) {
            let complaints = self.attachments.turn();
            complaints.into_iter().for_each(|complaint| self.say(complaint));
        }
        self.serve(ready.of(owner::CONTROL), now);
        let feed = ready.of(owner::FEED);
        if !feed.is_empty() || now >= self.feed.next_ms() {
            self.feed.turn(feed, now);
        }
    }

    /// A pass is to come as soon as one may.
    pub(crate) fn hurry(&mut self, now: u64) {
        let at = (self.last_pass_ms + URGENT_MS).max(now);
        self.pass_ms = Some(self.pass_ms.map_or(at, |due| due.min(at)));
    }

    fn tick(&mut self, now: u64) {
        self.publish();
        for guest in self.guests.values_mut() {
            guest.tick(now);
            // A balloon that moves is watched; QEMU tells of it once a second at most.
            if self.engine.arbiter.target(guest.key()).is_some() {
                self.sources[guest.source].ask_actual(guest.id, now);
            }
        }
    }

    /// Asks those that have run since they were asked last.
    fn ask(&mut self, now: u64) {
        for guest in self.guests.values_mut() {
            let key = guest.key();
            let moves = self.engine.arbiter.target(key).is_some();
            let sleeps = guest.is_asleep(now) && !moves && !self.engine.arbiter.is_strained(key);
            let stopped = guest.state != hypervisor::RunState::Running || !guest.answers;
            if sleeps || stopped || !guest.found.can.balloon {
                continue;
            }
            guest.open_ms = Some(now);
            self.sources[guest.source].ask_actual(guest.id, now);
            if !guest.inside.ask(now) && guest.found.can.statistics {
                guest.stats_ms = Some(now);
                self.sources[guest.source].ask_stats(guest.id, now);
            }
        }
        let open = self.guests.values().any(|guest| guest.open_ms == Some(now));
        let at = if open { now + PATIENCE_MS } else { now };
        self.pass_ms = Some(self.pass_ms.map_or(at, |due| due.min(at)));
    }

    fn pass_if_due(&mut self, now: u64) {
        if self.pass_ms.is_none_or(|due| now < due) {
            return;
        }
        self.pass_ms = None;
        self.last_pass_ms = now;
        if now.saturating_sub(self.start_ms) < SETTLE_MS {
            return;
        }
        let before_us = self.clock.us();
        self.pass(now);
        self.passes += 1;
        self.pass_us = Some(self.clock.us() - before_us);
        self.guests.values_mut().for_each(|guest| guest.open_ms = None);
    }

    /// Keeps an event in the journal.
    pub(crate) fn note(&mut self, kind: &'static str, text: impl Into<String>, id: Option<Id>) {
        let at_ms = self.clock.wall_ms();
        let who = id.and_then(|id| self.guests.get(&id)).map(|guest| guest.who.clone());
        self.journal.event(who.as_ref(), book::event(kind, text, at_ms));
    }

    /// Says something to the operator, and keeps it.
    pub(crate) fn say(&mut self, text: String) {
        self.note("trouble", text.clone(), None);
        self.said.push(text);
    }

    /// What is to be said on the terminal or to the log, once.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    /// Whether the time that it was given is over.
    pub fn is_over(&self) -> bool {
        let ran_ms = self.clock.ms().saturating_sub(self.start_ms);
        self.options.for_ms.is_some_and(|for_ms| ran_ms >= for_ms)
    }

    /// How many guests there are.
    pub fn guests(&self) -> usize {
        self.guests.len()
    }
}
