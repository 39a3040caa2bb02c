//! One guest: its identity, its limits, and its current state.

mod counted;
mod cpu;
mod demand;
mod identity;
mod memory;
pub(crate) mod sample;

pub(crate) use cpu::SOUND_TICK_MS;
pub use demand::GuestDemand;
pub use memory::GuestMemory;
pub(crate) use memory::MUTE;
use memory::NO_BALLOON;

use crate::attach::{Lent, run_dir};
use crate::config::{Settings, UserPart};
use crate::daemon_port::DaemonPort;
use crate::effect::{Now, Override};
use crate::groups::Member;
use crate::outside::Outside;
use agent::{Agent, AgentLink, DaemonEvent, GuestBounds, PoolGrants};
use base::Bytes;
use cpu::CpuWatch;
use hypervisor::{BlockStats, Capabilities, Found, Id, Machine, Pause, Pinned, RunState};
use identity::IdentityTracker;
use model::GuestIdentity;
use policy::arbiter::{GuestSample, Key, Limits, Mode, Process, Usable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// An idle guest sleeps soundly once its sample has this age. Such a guest is read once a second.
const SOUND_MS: u64 = 5_000;

/// A guest that the manager knows.
#[derive(Debug)]
pub struct ManagedGuest {
    /// Number of the guest.
    pub id: Id,
    /// Index of the source that found the guest.
    pub source: usize,
    /// Description of the guest from its source.
    pub found: Found,
    /// Limits of the guest's memory.
    pub limits: Limits,
    /// Totals of all guests of the guest's owner, unless the owner is root or the manager's own
    /// user.
    pub part: Option<UserPart>,
    /// State of the handover by its `pinhead up`.
    lent: Lent,
    pub state: RunState,
    /// True if the hypervisor answers.
    pub answers: bool,
    pub daemon: DaemonPort,
    pub memory: GuestMemory,
    pub demand: GuestDemand,
    /// Disk counters, from the hypervisor's last report.
    pub blocks: Option<BlockStats>,
    /// Process of the guest on the host.
    pub outside: Outside,
    /// Identity in the journal: uuid, process and boot.
    pub identity: IdentityTracker,
    /// Virtual CPUs of the guest.
    pub cpu: CpuWatch,
}

impl ManagedGuest {
    /// Returns a guest as its source found it.
    pub fn new(
        id: Id,
        source: usize,
        found: Found,
        limits: Limits,
        class: String,
        grants: PoolGrants,
        now_ms: u64,
    ) -> ManagedGuest {
        let bounds = GuestBounds { memory: found.memory, cpus: None };
        let link = AgentLink::new(Agent::new(bounds, grants));
        ManagedGuest {
            id,
            source,
            limits,
            part: None,
            lent: Lent::default(),
            state: found.state,
            answers: true,
            daemon: DaemonPort::new(found.port.clone(), found.port_access(), link),
            memory: GuestMemory::new(found.actual),
            demand: GuestDemand::new(now_ms),
            blocks: None,
            outside: Outside::new(found.process, found.owner.is_trusted())
                .with_ram(found.memory, &found.ram),
            identity: IdentityTracker::new(&found, class),
            cpu: CpuWatch::new(&found, now_ms),
            found,
        }
    }

    /// Returns the size to restore at the manager's end, within the maximum.
    pub fn restore(&self) -> Bytes {
        self.memory.restore().min(self.limits.max)
    }

    /// Sets the limits from the settings and the operator's override.
    pub(crate) fn entitle(&mut self, settings: &Settings, over: Option<&Override>) {
        let Found { name, memory, .. } = &self.found;
        let (limits, class) = settings.entitlement(name, *memory, self.part.as_ref());
        self.identity.class = class.unwrap_or_default().to_owned();
        self.limits = over.map_or(limits, |over| over.applied(limits, self.found.memory));
    }

    /// Handles a balloon that reached a size without a request of this manager.
    pub(crate) fn left_at(&mut self, size: Bytes, rose: bool, now_ms: u64) {
        if !rose && self.memory.is_on_its_way(size) {
            return;
        }
        // The guest's kernel may deflate the balloon without notice.
        let is_own = rose && self.found.can.deflate_on_oom == Some(true);
        self.memory.left_at(size, rose, is_own, now_ms);
    }

    /// Handles a daemon's report that the guest was on another host. The manager there reclaimed
    /// the memory that the guest lacks. Returns true if the report counts. A report counts only
    /// once, and only if the hypervisor received a migration.
    pub(crate) fn has_come_from_elsewhere(&mut self, now_ms: u64) -> bool {
        let is_seen = self.found.state == RunState::Migrating;
        if is_seen {
            self.found.state = RunState::Running;
            self.memory.had(self.found.memory, now_ms);
        }
        is_seen
    }

    /// Handles a guest that was restored or has moved here, with `size` in its configuration. The
    /// memory that the guest lacks was reclaimed elsewhere. Returns true if the size counts.
    pub(crate) fn is_configured(&mut self, size: Bytes, now_ms: u64) -> bool {
        if size <= self.memory.actual {
            // For a transient domain, libvirt returns the current size as the configuration.
            return false;
        }
        // From now on the daemon's report of a migration does not count, because it would restore
        // the guest's full size.
        if self.found.state == RunState::Migrating {
            self.found.state = RunState::Running;
        }
        self.memory.is_configured(size.min(self.found.memory), now_ms)
    }

    /// Returns the arbiter's key of the guest.
    pub fn key(&self) -> Key {
        Key(self.id.0)
    }

    /// Returns the identity in the journal: uuid, process and boot.
    pub fn who(&self) -> &Arc<GuestIdentity> {
        &self.identity.who
    }

    /// Returns true if an event of the hypervisor is worth a note. Notes about other users' guests
    /// are limited in rate, because such a user can cause any number of events.
    pub fn may_note(&mut self, now_ms: u64) -> bool {
        self.part.is_none() || self.identity.is_worth_a_note(now_ms)
    }

    /// Sets the run state. The clock of a stopped guest stops, so its daemon gets the current time
    /// when the guest resumes.
    pub(crate) fn is_in(&mut self, state: RunState, now: Now) {
        let before = std::mem::replace(&mut self.state, state);
        if matches!((before, state), (RunState::Paused(_), RunState::Running))
            && let Ok(ms) = u64::try_from(now.wall_ms)
        {
            self.daemon.link.clock(Duration::from_millis(ms));
        }
        self.is_parked_by_its_farm(now.ms);
    }

    /// Notes a park by the guest's `pinhead up`. Only `pinhead up` stops its guests, so a paused
    /// guest counts as parked.
    pub(crate) fn is_parked_by_its_farm(&mut self, now_ms: u64) {
        if run_dir(&self.found).is_some() {
            self.cpu.set_parked(self.state == RunState::Paused(Pause::ByHand), now_ms);
        }
    }

    /// Serves the daemon's port and reads the virtual CPUs, up to four times a second. Returns an
    /// event for each request for files that was not answered in time.
    pub fn tick(&mut self, now_ms: u64) -> Vec<DaemonEvent> {
        let late = match self.lent {
            Lent::No => Vec::new(),
            Lent::NotNeeded | Lent::Yes => self.daemon.tick(now_ms),
        };
        // Reading the virtual CPUs causes most of the cost of a hundred sleeping guests.
        if let Some(cpu_percent) = self.cpu.tick(self.is_sound(now_ms), now_ms) {
            self.daemon.link.load(cpu_percent, now_ms);
        }
        if !self.cpu.is_asleep() {
            self.outside.has_run();
        }
        late
    }

    /// Returns true if the guest sleeps soundly: its CPU usage has justified no request for five
    /// seconds.
    pub fn is_sound(&self, now_ms: u64) -> bool {
        let sampled_ms = self.memory.view.map_or(now_ms, |memory| memory.at_ms);
        now_ms.saturating_sub(sampled_ms) >= SOUND_MS && self.is_idle_since_sample(now_ms)
    }

    /// Sets the state of the handover. A port that `pinhead up` keeps is not opened.
    pub fn lend(&mut self, lent: Lent) {
        self.lent = lent;
        if lent == Lent::No {
            self.daemon.link.close();
        }
    }

    /// Returns the guest's name at its `pinhead up`, which is the name of its monitor's socket. In
    /// this manager, the names of another user's guests have the user's name as a prefix.
    pub fn farm_name(&self) -> Option<&str> {
        Path::new(&self.found.source).file_stem()?.to_str()
    }

    /// Returns each new status of the daemon in a farm's guest once, with the farm's directory and
    /// the guest's name there.
    pub(crate) fn take_status(&mut self) -> Option<(PathBuf, String, wire::Status)> {
        let is_new = std::mem::take(&mut self.daemon.has_status);
        let status = self.daemon.link.agent().status().filter(|_| is_new)?;
        Some((run_dir(&self.found)?.to_path_buf(), self.farm_name()?.to_owned(), status.clone()))
    }

    /// Sets the guest's class from its `pinhead up`, by the guest's name there.
    pub fn has_farm_class(&mut self, classes: &BTreeMap<String, String>) {
        if let Some(class) = self.farm_name().and_then(|name| classes.get(name)) {
            self.identity.has_farm_class(class, &self.found);
        }
    }

    /// Returns true if the virtual CPUs have hardly run since the newest sample, which is then
    /// still valid. An idle guest need not be asleep: it may have been busy a second ago, before
    /// its newest sample. [`CpuWatch::is_asleep`] is the state for display.
    pub fn is_idle_since_sample(&self, now_ms: u64) -> bool {
        self.memory
            .settled_view()
            .is_some_and(|memory| self.cpu.was_idle_for(now_ms.saturating_sub(memory.at_ms)))
    }

    /// Returns true if the memory sample is still valid, so that a request need not wake the guest.
    /// A balloon's sample becomes invalid when a daemon connects, because the daemon reports more.
    /// After an empty sample of a balloon, requests continue until the balloon counts as mute.
    pub fn is_known(&self, now_ms: u64) -> bool {
        let agent = self.daemon.link.agent();
        let is_balloons = self.memory.is_sample_balloons();
        let is_to_tell = is_balloons && agent.hello().is_some() && agent.is_worth_waiting();
        let is_empty = is_balloons && self.memory.may_be_mute();
        !is_to_tell && !is_empty && self.is_idle_since_sample(now_ms)
    }

    /// Stores the daemon's memory sample, which is at least as new as `true_ms`.
    pub fn daemon_sample(&mut self, sample: &wire::Memory, true_ms: Option<u64>) {
        if self.memory.daemon_sample(sample, true_ms, self.found.memory) {
            self.cpu.sampled();
        }
    }

    /// Takes z/VM's counters of the guest.
    pub fn count(&mut self, user: &zmon::hypfs::Guest, now_ms: u64) {
        let usage = self.memory.count(user, now_ms);
        self.cpu.counted(usage);
    }

    /// Reads the guest's memory that is resident on the host.
    pub fn read_resident(&mut self, now_ms: u64) {
        if self.demand.is_urgent {
            // A need is judged by the guest's current state, so the virtual CPUs are read again.
            self.cpu.tick(false, now_ms);
            self.outside.look_at_swap();
        }
        let reports = self.found.can.page_reporting == Some(true);
        self.memory.read_held(self.outside.held(), reports, now_ms);
    }

    /// Returns true if the hypervisor's own part must be measured again.
    pub fn is_own_due(&self, now_ms: u64) -> bool {
        self.outside.is_own_due(self.memory.holds_more_than_it_has(), now_ms)
    }

    /// Notes that page-out of the guest begins.
    pub fn page_out_begins(&mut self) {
        self.memory.is_taken = true;
    }

    /// Notes that page-out has ended. The memory that it reclaimed does not count as page
    /// reporting.
    pub fn page_out_ended(&mut self, now_ms: u64) {
        self.outside.was_paged_out();
        self.read_resident(now_ms);
        self.memory.is_taken = false;
    }

    /// Updates memory and virtual CPUs after a hotplug.
    pub fn replugged(&mut self, machine: Machine) {
        let Machine { memory, ram, vcpu_tids } = machine;
        if (memory, &ram) != (self.found.memory, &self.found.ram) {
            self.outside.replugged(memory, &ram);
        }
        self.found.ram = ram;
        let before = std::mem::replace(&mut self.found.memory, memory);
        self.memory.replugged(before, memory);
        self.daemon.link.bound(memory);
        if vcpu_tids != self.found.vcpu_tids {
            self.found.vcpu_tids = vcpu_tids;
            self.cpu.watch(&self.found);
        }
    }

    /// Updates the balloon and the daemon's port after a hotplug.
    pub fn has_devices(&mut self, can: Capabilities, port: Option<PathBuf>) {
        self.found.can = can;
        if port != self.found.port {
            self.found.port = port;
            self.daemon.moved(self.found.port.clone());
        }
    }

    /// Handles a reboot, after which earlier reports are invalid.
    pub fn rebooted(&mut self) {
        self.identity.rebooted(&self.found);
        self.memory.rebooted();
        self.demand.rebooted();
        self.daemon.link.rebooted();
    }

    /// Returns the arbiter's input.
    pub fn sample(&self, now_ms: u64) -> GuestSample {
        GuestSample {
            key: self.key(),
            limits: self.limits,
            actual: self.answers.then_some(self.memory.actual),
            resident: self.memory.resident(),
            doubtful: self.memory.held.map_or(Bytes::ZERO, |held| held.own.doubtful()),
            process: self.process(),
            swapped: self.outside.seen.swapped,
            runs: self.cpu.runs(),
            memory: self.memory.view,
            idle_since_sample: self.is_idle_since_sample(now_ms),
            usable: self.usable(),
            request: self.demand.request,
            asks: self.demand.sequence.is_some(),
            urgent: self.demand.is_urgent,
            deflates_on_oom: self.found.can.deflate_on_oom == Some(true),
        }
    }

    /// Returns the state of the guest's process for the arbiter. A user of z/VM has no process, and
    /// therefore no private memory.
    fn process(&self) -> Process {
        let held = self.memory.held;
        let of_process = held.filter(|_| self.memory.counted.is_none());
        Process {
            beside: held.map_or(Bytes::ZERO, |held| held.shared.plus(held.own.size)),
            private: of_process.map(|held| held.private),
            pinned: self.pinned().map(Pinned::why),
            group_max: self.outside.most,
            found: Some(self.restore()),
            reports: self.found.can.page_reporting == Some(true),
        }
    }

    /// Returns the reason why the guest's memory cannot be swapped out, from its machine or its
    /// process.
    pub(crate) fn pinned(&self) -> Option<Pinned> {
        self.found.can.pinned.or_else(|| self.outside.pinned(self.found.memory))
    }

    /// Returns true if the guest may get memory, because it is awake, or its limits or rules
    /// entitle it to more.
    pub(crate) fn may_grow(&self, now_ms: u64) -> bool {
        let least = match self.limits.mode {
            Mode::Managed => self.limits.min,
            Mode::Pinned(size) => size,
            Mode::Released => self.limits.max,
        };
        let asks = self.demand.is_urgent || self.demand.sequence.is_some();
        asks || self.memory.actual < least || !self.is_idle_since_sample(now_ms)
    }

    /// Returns true if the guest has less memory than before it was managed. Its balloon may then
    /// be released, even while the guest sleeps.
    pub(crate) fn may_be_released(&self) -> bool {
        let is_managed = self.limits.mode == Mode::Managed && self.demand.request.is_none();
        is_managed && self.memory.actual < self.restore()
    }

    pub(crate) fn member(&self, may_grow: bool) -> Member<'_> {
        Member {
            groups: &self.outside.groups,
            actual: self.memory.actual,
            touched: self.memory.touched(),
            swapped: self.outside.seen.swapped.unwrap_or(Bytes::ZERO),
            may_grow,
        }
    }

    fn usable(&self) -> Usable {
        if !self.found.can.balloon {
            return Usable::No(match self.memory.counted {
                Some(_) => "the settings' [zvm] table does not list this guest",
                None => NO_BALLOON,
            });
        }
        if self.part.is_some() && self.found.process.is_none() {
            // Another user can hide the process, and thereby the evidence against the guest's
            // claims.
            return Usable::No("it belongs to another user, and its process is not visible");
        }
        if !self.answers {
            return Usable::No("its hypervisor does not answer");
        }
        if self.lent == Lent::No {
            return Usable::No("its `pinhead up` has not handed it over to this manager");
        }
        match self.state {
            RunState::Running => Usable::Yes,
            RunState::Paused(_) if self.cpu.is_parked() => Usable::No("it is parked"),
            RunState::Paused(why) => Usable::No(why.words()),
            RunState::Migrating => Usable::No("it is moving to another host"),
            RunState::Dead => Usable::No("it has stopped"),
        }
    }
}
