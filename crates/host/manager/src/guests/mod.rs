//! The guests, their reports, and requests to them.
//!
//! ```text
//!   hypervisors' events ─┐
//!   daemons' ports ──────┼─► Guests ─► Effects: requests, notes, "a pass is needed"
//!   time ────────────────┘
//! ```

mod arrive;
mod groups;
mod pace;
mod saved;
#[cfg(test)]
mod testing;

use crate::attach::run_dir;
use crate::config::Settings;
use crate::control::{Failure, NextTimer, Return};
use crate::effect::{Attention, Effect, GuestEvent, MemoryEvent, Now, Override, ParkEvent};
use crate::groups::{Groups, Rooms};
use crate::guest::ManagedGuest;
use crate::journal;
use crate::lease::Lease;
use crate::users::Users;
use agent::DaemonEvent;
use base::plain;
use hypervisor::{Event, Found, Id, Owner, RunState};
use model::GuestIdentity;
use policy::arbiter::Limits;
use reactor::PollSet;
use saved::SavedSizes;
use std::collections::{BTreeMap, BTreeSet};
use store::{Fate, kinds};
use wire::{AtHost, Pressure, ToGuest};

/// Maximum length of a host's name reported by a guest, in characters.
const NAME_MAX: usize = 64;
/// Maximum number of names in an error message.
const NAMES_MAX: usize = 12;

/// Interval between requests to guests without a balloon.
const DEVICES_MS: u64 = 60_000;

/// Settings and state that determine a guest's limits.
#[derive(Clone, Copy)]
pub(crate) struct Entitlement<'a> {
    /// Settings in force.
    pub settings: &'a Settings,
    /// True if decisions are carried out.
    pub acts: bool,
    /// Lease with the sizes to restore for guests that an earlier manager left smaller.
    pub lease: &'a Lease,
}

#[derive(Default)]
pub(crate) struct Guests {
    users: Users,
    /// Name of the host at the manager's start.
    host_name: String,
    guests: BTreeMap<Id, ManagedGuest>,
    overrides: BTreeMap<Id, Override>,
    /// Guests under close watch, with the reasons.
    attended: BTreeMap<Id, Attention>,
    own_groups: Groups,
    /// Memory that the limits of control groups leave free.
    pub(crate) rooms: Rooms,
    /// Sizes of gone guests that may return.
    saved: SavedSizes,
    /// Time of the last request to guests without a balloon.
    looked_ms: u64,
    /// Readings of the guests' processes.
    looks: groups::Looks,
    /// True once a guest without a visible process was reported.
    is_unseen_told: bool,
    /// Number of guests that have ever arrived.
    pub(crate) arrivals: u64,
}

impl Guests {
    /// Returns an empty set for a host of this name. Guests of `users` are managed in addition to
    /// guests of the manager's own user.
    pub(crate) fn new(users: Users, host_name: String) -> Guests {
        Guests { users, host_name, ..Guests::default() }
    }

    pub(crate) fn get(&self, guest: Id) -> Option<&ManagedGuest> {
        self.guests.get(&guest)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ManagedGuest> {
        self.guests.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.guests.len()
    }

    /// Returns the number of users with guests here, including `others`, the users with unmanaged
    /// guests.
    pub(crate) fn owners(&self, mut others: BTreeSet<Owner>) -> usize {
        others.extend(self.iter().map(|guest| guest.found.owner));
        others.len()
    }

    pub(crate) fn override_of(&self, guest: Id) -> Override {
        self.overrides.get(&guest).copied().unwrap_or_default()
    }

    /// Returns the reason for a close watch of a guest, if any.
    pub(crate) fn attention(&self, guest: Id) -> Attention {
        self.attended.get(&guest).copied().unwrap_or_default()
    }

    pub(crate) fn limits(&self) -> BTreeMap<Id, Limits> {
        self.iter().map(|guest| (guest.id, guest.limits)).collect()
    }

    /// Returns true if a request for a guest's memory that was sent at this time is unanswered.
    pub(crate) fn has_open_question(&self, now: Now) -> bool {
        self.iter().any(|guest| guest.memory.question_ms == Some(now.ms))
    }

    /// Returns true if the identity is of a present guest, in this boot.
    pub(crate) fn is_present(&self, who: &GuestIdentity) -> bool {
        self.iter().any(|guest| guest.who().is_same(who))
    }

    /// Returns the guest with this name, UUID or monitor path. Another user's guest has that user's
    /// name as a prefix. Such a guest is not found by its UUID, because that user chooses it.
    pub(crate) fn find(&self, name: &str) -> Result<&ManagedGuest, Failure> {
        let is_at = |found: &Found| found.has_monitor() && found.source == name;
        let fits = |guest: &ManagedGuest| {
            let is_it = guest.found.name == name || is_at(&guest.found);
            is_it || (guest.part.is_none() && guest.who().uuid == name)
        };
        let is_own_there = self.iter().any(|guest| guest.part.is_none() && fits(guest));
        let counts = |guest: &&ManagedGuest| guest.part.is_none() == is_own_there && fits(guest);
        let mut found = self.iter().filter(counts);
        match (found.next(), found.next()) {
            (Some(guest), None) => Ok(guest),
            (Some(_), Some(_)) => {
                let all = self.iter().filter(counts).take(NAMES_MAX);
                let all: Vec<&str> = all.map(address).collect();
                Err(Failure::new(format!("More than one guest is called {name}"))
                    .help(format!("use its UUID, or the path of its monitor: {}", all.join(", "))))
            }
            (None, _) => {
                let names = self.iter().map(|guest| guest.found.name.as_str());
                let failure = Failure::new(format!("There is no guest {name}"));
                Err(failure.help(base::correction(name, names)))
            }
        }
    }

    pub(crate) fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        for guest in self.iter() {
            if let Some((connection, flags)) = guest.daemon.link.connection() {
                set.connection(guest.id.0, connection, flags);
            }
        }
    }

    pub(crate) fn step(&mut self, by: Entitlement<'_>, event: GuestEvent, now: Now) -> Vec<Effect> {
        match event {
            GuestEvent::Source(source, event) => return self.hypervisor(source, event, by, now),
            GuestEvent::Port(id, flags) => {
                let Some(guest) = self.guests.get_mut(&id) else { return Vec::new() };
                let events = guest.daemon.turn(flags, now.ms);
                return events.into_iter().flat_map(|event| self.react(id, event, now)).collect();
            }
            GuestEvent::Tick => return self.tick(now),
            GuestEvent::Ask => return self.ask(now),
            GuestEvent::PassBegins => self.read_resident(now),
            GuestEvent::PassEnded => {
                for guest in self.guests.values_mut() {
                    guest.demand.is_urgent = false;
                    guest.memory.question_ms = None;
                }
            }
            GuestEvent::LookAtProcesses => {
                self.looks.look(&mut self.guests, now.ms);
                self.own_groups = groups::own();
            }
            GuestEvent::Settings => {
                for guest in self.guests.values_mut() {
                    guest.entitle(by.settings, self.overrides.get(&guest.id));
                }
                return vec![Effect::Memory(MemoryEvent::LimitsChanged)];
            }
            GuestEvent::Override(id, over) => {
                self.overrides.insert(id, over);
                let Some(guest) = self.guests.get_mut(&id) else { return Vec::new() };
                guest.entitle(by.settings, Some(&over));
                // The operator may just have changed the limits of the guest's groups.
                groups::renew(guest);
                return vec![Effect::Memory(MemoryEvent::LimitsChanged)];
            }
            GuestEvent::Attend(id, Attention { moves: false, strained: false }) => {
                self.attended.remove(&id);
            }
            GuestEvent::Attend(id, attention) => {
                self.attended.insert(id, attention);
            }
            GuestEvent::Parked(id, is_parked) => {
                self.with(id, |guest| guest.cpu.set_parked(is_parked, now.ms));
            }
            GuestEvent::AskScan(id) => self.with(id, |guest| {
                // The caller has checked for a daemon. A daemon that has ended since does not
                // answer.
                let _ = guest.daemon.link.ask_tasks();
            }),
            GuestEvent::Capture { to, guest } => {
                if let Err(failure) = self.capture(&guest, to, now) {
                    return vec![to.answer(Err(failure))];
                }
            }
            GuestEvent::Grant { guest, keeps, reason } => self.with(guest, |guest| {
                let sequence = guest.demand.sequence.take().unwrap_or(0);
                guest.daemon.link.grant(sequence, keeps, reason);
            }),
            GuestEvent::Target { guest, size } => {
                self.with(guest, |guest| guest.memory.ask(size));
            }
            GuestEvent::Left { guest: id, at, rose } => {
                let Some(guest) = self.guests.get_mut(&id) else { return Vec::new() };
                guest.left_at(at, rose, now.ms);
                return vec![Effect::Hold { guest: id, size: guest.memory.least() }];
            }
            GuestEvent::PageOutBegins(id) => self.with(id, |guest| guest.page_out_begins()),
            GuestEvent::PageOutEnded(id) => self.with(id, |guest| guest.page_out_ended(now.ms)),
            GuestEvent::Lent(dir, lent) => {
                let of_dir = |guest: &&mut ManagedGuest| run_dir(&guest.found) == Some(&dir);
                self.guests.values_mut().filter(of_dir).for_each(|guest| guest.lend(lent));
            }
            GuestEvent::AskTimer(dir, name) => {
                let is_it = |guest: &&mut ManagedGuest| {
                    run_dir(&guest.found) == Some(&dir) && guest.farm_name() == Some(&*name)
                };
                if let Some(guest) = self.guests.values_mut().find(is_it) {
                    // Without a daemon the farm gets no answer, and parks the guest.
                    guest.daemon.link.ask_alarm();
                }
            }
            GuestEvent::Classes(dir, classes) => {
                let of_dir = |guest: &&mut ManagedGuest| run_dir(&guest.found) == Some(&dir);
                for guest in self.guests.values_mut().filter(of_dir) {
                    guest.has_farm_class(&classes);
                }
            }
        }
        Vec::new()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ManagedGuest> {
        self.guests.values_mut()
    }

    fn with(&mut self, guest: Id, change: impl FnOnce(&mut ManagedGuest)) {
        if let Some(guest) = self.guests.get_mut(&guest) {
            change(guest);
        }
    }

    fn tick(&mut self, now: Now) -> Vec<Effect> {
        let mut late = Vec::new();
        for (id, guest) in &mut self.guests {
            late.extend(guest.tick(now.ms).into_iter().map(|event| (*id, event)));
        }
        let late = late.into_iter().flat_map(|(id, event)| self.react(id, event, now));
        let mut effects: Vec<Effect> = late.collect();
        // A moving balloon is queried, because QEMU reports its size at most once a second.
        let moving = self.attended.iter().filter(|(_, attention)| attention.moves);
        let moving = moving.filter_map(|(id, _)| self.guests.get(id));
        let ask =
            |guest: &ManagedGuest| Effect::AskActual { guest: guest.id, source: guest.source };
        effects.extend(moving.map(ask));
        effects
    }

    fn capture(&mut self, name: &str, to: Return, now: Now) -> Result<(), Failure> {
        let id = self.find(name)?.id;
        let guest = self.guests.get_mut(&id).ok_or_else(|| Failure::new("The guest is gone"))?;
        guest.daemon.capture(name, to, now.ms)
    }

    /// Sends requests to guests that have run since the last request.
    fn ask(&mut self, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        let looks = now.ms.saturating_sub(self.looked_ms) >= DEVICES_MS;
        if looks {
            self.looked_ms = now.ms;
        }
        for (id, guest) in &mut self.guests {
            let attention = self.attended.get(id).copied().unwrap_or_default();
            let sleeps = guest.is_known(now.ms) && !attention.moves && !attention.strained;
            let stopped = guest.state != RunState::Running || !guest.answers;
            if sleeps || stopped {
                continue;
            }
            if !guest.found.can.balloon {
                // A balloon or a daemon's port may have been attached since the last request.
                effects.extend(
                    looks.then_some(Effect::AskActual { guest: *id, source: guest.source }),
                );
                continue;
            }
            guest.memory.question_ms = Some(now.ms);
            effects.push(Effect::AskActual { guest: *id, source: guest.source });
            if !guest.daemon.link.ask_sample(now.ms) && guest.found.can.statistics {
                guest.memory.stats_are_asked(now.ms);
                effects.push(Effect::AskStats { guest: *id, source: guest.source });
            }
        }
        effects
    }

    fn read_resident(&mut self, now: Now) {
        for (id, guest) in &mut self.guests {
            let moves = self.attended.get(id).is_some_and(|attention| attention.moves);
            // A sleeping guest may have returned pages since the last reading.
            let tells = moves || guest.demand.is_urgent;
            if tells || !guest.is_idle_since_sample(now.ms) || guest.memory.is_resident_old(now.ms)
            {
                guest.read_resident(now.ms);
            }
        }
        self.measure_own(now);
        self.rooms = groups::read(&mut self.guests, &self.own_groups, now.ms);
    }

    fn hypervisor(
        &mut self,
        source: usize,
        event: Event,
        by: Entitlement<'_>,
        now: Now,
    ) -> Vec<Effect> {
        match event {
            Event::Found(id, found) => return self.found(source, id, found, by, now),
            Event::Rebooted(id) => return self.rebooted(id, now),
            Event::State(id, state) => {
                self.with(id, |guest| guest.is_in(state, now));
                return vec![Effect::Parking(ParkEvent::State(id, state))];
            }
            Event::Stays(id, why) => return vec![Effect::Parking(ParkEvent::Stays(id, why))],
            Event::Machine(id, machine) => return self.replugged(id, machine, by, now),
            Event::Devices(id, can, port) => self.with(id, |guest| guest.has_devices(can, port)),
            Event::Actual(id, actual) => return self.sized(id, actual),
            Event::Configured(id, size) => return self.configured(id, size, now),
            Event::Stats(id, stats) => self.with(id, |guest| {
                guest.memory.balloon_sample(stats, now.ms);
                guest.cpu.sampled();
            }),
            Event::Counted(id, user) => self.with(id, |guest| guest.count(&user, now.ms)),
            Event::Blocks(id, blocks) => self.with(id, |guest| guest.blocks = Some(blocks)),
            Event::Taken(..) => {}
            Event::Refused(id, why) => {
                let Some(guest) = self.guests.get_mut(&id) else { return Vec::new() };
                let row = journal::ended(Fate::Refused, guest.memory.actual, now.wall_ms);
                let mut effects = vec![Effect::Outcome { guest: id, row }];
                if guest.may_note(now.ms) {
                    let text = format!("its hypervisor refused: {why}");
                    effects.push(Effect::note("refused", text, Some(guest.who())));
                }
                return effects;
            }
            Event::Answers(id, answers) => {
                let Some(guest) = self.guests.get_mut(&id) else { return Vec::new() };
                let is_news = std::mem::replace(&mut guest.answers, answers) != answers;
                if is_news && guest.may_note(now.ms) {
                    let text = if answers { "it answers again" } else { "it does not answer" };
                    return vec![Effect::note("answers", text, Some(guest.who()))];
                }
            }
            Event::Gone(id, why) => {
                self.overrides.remove(&id);
                self.attended.remove(&id);
                let Some(mut guest) = self.guests.remove(&id) else { return Vec::new() };
                let row = journal::ended(Fate::Gone, guest.memory.actual, now.wall_ms);
                self.saved.keep(&guest.found, guest.memory.restore());
                let mut effects = vec![
                    Effect::note(kinds::GONE, groups::end_of(&guest, &why), Some(guest.who())),
                    Effect::Release(id, guest.found.process),
                    Effect::Parking(ParkEvent::Gone(id, guest.found.process)),
                    Effect::Outcome { guest: id, row },
                ];
                effects.extend(guest.daemon.gone());
                effects.extend(self.share_out(guest.found.owner, by));
                return effects;
            }
            // The loop reports a source's trouble, because it does not concern a single guest.
            Event::Trouble(_) => {}
        }
        Vec::new()
    }

    fn rebooted(&mut self, id: Id, now: Now) -> Vec<Effect> {
        let Some(guest) = self.guests.get_mut(&id) else { return Vec::new() };
        guest.rebooted();
        let mut effects = vec![Effect::Memory(MemoryEvent::Rebooted(id)), Effect::NewBoot(id)];
        // A guest may report a hundred reboots a second, but the journal must keep room for other
        // guests.
        if guest.identity.is_worth_a_note(now.ms) {
            effects.push(Effect::note(kinds::REBOOTED, "it has started again", Some(guest.who())));
        }
        effects
    }

    fn react(&mut self, id: Id, event: DaemonEvent, now: Now) -> Vec<Effect> {
        let Some(guest) = self.guests.get_mut(&id) else { return Vec::new() };
        match event {
            DaemonEvent::Here(boot) => {
                let name = self.host_name.clone();
                guest.daemon.link.send(&ToGuest::AtHost(AtHost { name }));
                return match guest.identity.is_new_boot(boot, &guest.found) {
                    true => self.rebooted(id, now),
                    false => Vec::new(),
                };
            }
            DaemonEvent::CameFrom(host) => {
                if host == self.host_name {
                    return Vec::new();
                }
                let mut effects = Vec::new();
                if guest.has_come_from_elsewhere(now.ms) {
                    effects.push(Effect::Hold { guest: id, size: guest.memory.least() });
                }
                // A guest may send any text here, a hundred times a second.
                if guest.identity.is_origin_worth_a_note(now.ms) {
                    let text =
                        format!("it reports {} as its previous host", plain(&host, NAME_MAX));
                    effects.push(Effect::note(kinds::CAME_FROM, text, Some(guest.who())));
                }
                return effects;
            }
            DaemonEvent::Sample(sample, true_ms) => {
                guest.daemon_sample(&sample, true_ms);
                if !guest.demand.is_urgent {
                    let is_open = self.iter().any(|guest| guest.memory.question_ms.is_some());
                    return if is_open { Vec::new() } else { vec![Effect::AllAnswered] };
                }
            }
            DaemonEvent::PoolRequest(request) => {
                let keeps = guest.daemon.link.agent().bounds.kept(request.pages);
                let keeps = Some(keeps).filter(|keeps| *keeps < guest.found.memory);
                (guest.demand.request, guest.demand.sequence) = (keeps, Some(request.sequence));
            }
            DaemonEvent::Tasks(scan) => return vec![Effect::Scanned(id, scan)],
            DaemonEvent::Files(files) => {
                return guest.daemon.captured(&files).into_iter().collect();
            }
            DaemonEvent::Need(Pressure::Memory) => {
                guest.demand.is_urgent = true;
                // The daemon sends a sample with its report of need. This request is for the case
                // that the sample is missing.
                guest.daemon.link.ask_sample(now.ms);
            }
            DaemonEvent::Alarm(in_ms) => {
                let farm = run_dir(&guest.found).zip(guest.farm_name());
                let tell = farm.map(|(dir, name)| {
                    let timer = NextTimer { next_timer_of: name.to_owned(), in_ms };
                    Effect::TellTimer(dir.to_path_buf(), timer)
                });
                return tell.into_iter().collect();
            }
            // The daemon's status is only shown and recorded.
            DaemonEvent::Status => {
                guest.daemon.has_status = true;
                return Vec::new();
            }
            DaemonEvent::Bye => guest.demand.withdraw(),
            // A guest that waits for a CPU needs no action, because the host's scheduler serves it.
            // Names cannot arrive, because the manager requests none.
            DaemonEvent::Need(Pressure::Cpu) | DaemonEvent::Named(_) => return Vec::new(),
        }
        self.hurry_for(id, now)
    }

    /// Brings the next pass forward for a guest, within its rate limit.
    fn hurry_for(&mut self, id: Id, now: Now) -> Vec<Effect> {
        let may = self.guests.get_mut(&id).is_some_and(|guest| guest.demand.may_hurry(now.ms));
        if may { vec![Effect::Hurry] } else { Vec::new() }
    }
}

/// Returns a name that identifies this guest and no other.
fn address(guest: &ManagedGuest) -> &str {
    match guest.found.has_monitor() {
        true => &guest.found.source,
        false => &guest.who().uuid,
    }
}
