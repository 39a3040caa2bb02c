//! One guest: what it is, what it may have, and what is known of it now.

mod arbiter_view;
mod counted;
mod cpu;
mod demand;
mod identity;
mod memory;

pub(crate) use cpu::SOUND_TICK_MS;
pub use demand::GuestDemand;
pub(crate) use memory::MUTE;
pub use memory::{GuestMemory, MemorySample};

use crate::attach::{Lent, run_dir};
use crate::config::{Settings, UserPart};
use crate::daemon_port::DaemonPort;
use crate::effect::{Now, Override};
use crate::groups::Member;
use crate::outside::Outside;
use agent::{Agent, AgentLink, GuestBounds, PoolGrants};
use counters::Bytes;
use cpu::CpuWatch;
use hypervisor::{
    BalloonStats, BlockStats, Capabilities, Found, Id, Machine, Pause, Pinned, RunState,
};
use identity::IdentityTracker;
use model::GuestIdentity;
use policy::arbiter::{GuestSample, Key, Limits, Mode, Process, Usable};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A guest has slept soundly that was not asked for so long; it is looked at once a second.
const SOUND_MS: u64 = 5_000;

/// A guest that is managed.
#[derive(Debug)]
pub struct ManagedGuest {
    /// Its number.
    pub id: Id,
    /// The source that found it, by its place among the sources.
    pub source: usize,
    /// What it was found to be.
    pub found: Found,
    /// What it is entitled to.
    pub limits: Limits,
    /// All guests of its owner together, where that is neither root nor the manager's own user.
    pub part: Option<UserPart>,
    /// Whether the `pinhead up` that started it has handed it over.
    lent: Lent,
    /// How it runs.
    pub state: RunState,
    /// Whether its hypervisor answers.
    pub answers: bool,
    /// Its daemon.
    pub daemon: DaemonPort,
    /// Its memory.
    pub memory: GuestMemory,
    /// What it asks for.
    pub demand: GuestDemand,
    /// What it did with its disks, by the last report of its hypervisor.
    pub blocks: Option<BlockStats>,
    /// Its process, as the host sees it.
    pub outside: Outside,
    /// Its identity in the journal: uuid, process and boot.
    pub identity: IdentityTracker,
    /// Its virtual CPUs.
    pub cpu: CpuWatch,
}

impl ManagedGuest {
    /// A guest as it was found.
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

    /// The size that it is to have when the manager ends, within its maximum.
    pub fn restore(&self) -> Bytes {
        self.memory.restore().min(self.limits.max)
    }

    /// Sets its limits by the settings, and by what was set by hand.
    pub(crate) fn entitle(&mut self, settings: &Settings, over: Option<&Override>) {
        let Found { name, memory, .. } = &self.found;
        let (limits, class) = settings.entitlement(name, *memory, self.part.as_ref());
        self.identity.class = class.unwrap_or_default().to_owned();
        self.limits = over.map_or(limits, |over| over.applied(limits, self.found.memory));
    }

    /// Its balloon has come to a size that this manager has not asked for.
    pub(crate) fn left_at(&mut self, size: Bytes, rose: bool, now_ms: u64) {
        if !rose && self.memory.is_on_its_way(size) {
            return;
        }
        // Its kernel may take memory back without a word.
        let is_own = rose && self.found.can.deflate_on_oom == Some(true);
        self.memory.left_at(size, rose, is_own, now_ms);
    }

    /// Its daemon says that it was on another host: the manager there has taken what it lacks.
    /// Returns whether that counts: once, and only if its hypervisor was seen to receive it.
    pub(crate) fn has_come_from_elsewhere(&mut self, now_ms: u64) -> bool {
        let is_seen = self.found.state == RunState::Migrating;
        if is_seen {
            self.found.state = RunState::Running;
            self.memory.had(self.found.memory, now_ms);
        }
        is_seen
    }

    /// It was restored, or has moved here, and its configuration has so much memory for it. What it
    /// lacks of that was taken before it came. Returns whether that counts.
    pub(crate) fn is_configured(&mut self, size: Bytes, now_ms: u64) -> bool {
        if size <= self.memory.actual {
            // Of a domain that is not kept libvirt has no other configuration than what it has.
            return false;
        }
        // Its daemon's word counts no more: that gives it all that it can have.
        if self.found.state == RunState::Migrating {
            self.found.state = RunState::Running;
        }
        self.memory.is_configured(size.min(self.found.memory), now_ms)
    }

    /// The arbiter's name for it.
    pub fn key(&self) -> Key {
        Key(self.id.0)
    }

    /// Its identity in the journal: uuid, process and boot.
    pub fn who(&self) -> &Arc<GuestIdentity> {
        &self.identity.who
    }

    /// Whether something that its hypervisor says is to be noted. Another user's may say it as
    /// often as that user likes.
    pub fn may_note(&mut self, now_ms: u64) -> bool {
        self.part.is_none() || self.identity.is_worth_a_note(now_ms)
    }

    /// It is in this state. While it was stopped it has counted no time, and its daemon is told
    /// what time it is.
    pub(crate) fn is_in(&mut self, state: RunState, now: Now) {
        let before = std::mem::replace(&mut self.state, state);
        if matches!((before, state), (RunState::Paused(_), RunState::Running))
            && let Ok(ms) = u64::try_from(now.wall_ms)
        {
            self.daemon.link.clock(Duration::from_millis(ms));
        }
        self.is_parked_by_its_farm(now.ms);
    }

    /// Only its `pinhead up` stops the guests of one: it has parked those that stand still.
    pub(crate) fn is_parked_by_its_farm(&mut self, now_ms: u64) {
        if run_dir(&self.found).is_some() {
            self.cpu.set_parked(self.state == RunState::Paused(Pause::ByHand), now_ms);
        }
    }

    /// Up to four times a second: its daemon, and what its virtual CPUs did.
    pub fn tick(&mut self, now_ms: u64) {
        if self.lent != Lent::No {
            self.daemon.tick(now_ms);
        }
        // A hundred guests sleep: looking at their virtual CPUs is most of what they cost.
        if let Some(cpu_percent) = self.cpu.tick(self.is_sound(now_ms), now_ms) {
            self.daemon.link.load(cpu_percent, now_ms);
        }
        if !self.cpu.is_asleep() {
            self.outside.has_run();
        }
    }

    /// Whether it sleeps soundly: nothing was worth asking for some time.
    pub fn is_sound(&self, now_ms: u64) -> bool {
        let sampled_ms = self.memory.view.map_or(now_ms, |memory| memory.at_ms);
        now_ms.saturating_sub(sampled_ms) >= SOUND_MS && self.is_idle_since_sample(now_ms)
    }

    /// Its `pinhead up` has handed it over, or keeps it: then its port is left alone.
    pub fn lend(&mut self, lent: Lent) {
        self.lent = lent;
        if lent == Lent::No {
            self.daemon.link.close();
        }
    }

    /// Takes the class that its `pinhead up` has it in, by its name there.
    pub fn has_farm_class(&mut self, classes: &BTreeMap<String, String>) {
        // Another user's guest has that user's name before its own.
        let name = self.found.name.rsplit('/').next().unwrap_or_default();
        if let Some(class) = classes.get(name) {
            self.identity.has_farm_class(class, &self.found);
        }
    }

    /// Whether its virtual CPUs have hardly run since its newest sample, which so still holds. That
    /// is no state of a guest: one that worked hard a second ago and was asked since is idle too.
    /// What people are shown is [`CpuWatch::is_asleep`].
    pub fn is_idle_since_sample(&self, now_ms: u64) -> bool {
        self.memory
            .settled_view()
            .is_some_and(|memory| self.cpu.was_idle_for(now_ms.saturating_sub(memory.at_ms)))
    }

    /// Whether what is known of its memory still holds, so that nobody need wake it to ask. A
    /// daemon that came after its balloon had told is still to tell: it knows more.
    pub fn is_known(&self, now_ms: u64) -> bool {
        let agent = self.daemon.link.agent();
        let is_balloons = matches!(self.memory.last_sample, Some(MemorySample::Balloon(_)));
        let is_to_tell = is_balloons && agent.hello().is_some() && agent.is_worth_waiting();
        !is_to_tell && self.is_idle_since_sample(now_ms)
    }

    /// Takes its daemon's sample of its memory, and when that was true at least.
    pub fn daemon_sample(&mut self, sample: &wire::Memory, true_ms: Option<u64>) {
        if self.memory.daemon_sample(sample, true_ms, self.found.memory) {
            self.cpu.sampled();
        }
    }

    /// Takes its balloon's statistics.
    pub fn balloon_sample(&mut self, stats: &BalloonStats, now_ms: u64) {
        self.memory.balloon_sample(stats, now_ms);
        self.cpu.sampled();
    }

    /// Takes what z/VM counts of it.
    pub fn count(&mut self, user: &zmon::hypfs::Guest, now_ms: u64) {
        let usage = self.memory.count(user, now_ms);
        self.cpu.counted(usage);
    }

    /// Its memory on the host, read while it runs or its balloon moves. What left it without
    /// the balloon's doing came back by page reporting.
    pub fn read_resident(&mut self, now_ms: u64) {
        if self.demand.is_urgent {
            // It says that it waits: what it does and holds is seen as it is now.
            self.cpu.tick(false, now_ms);
            self.outside.look_at_swap();
        }
        let reports = self.found.can.page_reporting == Some(true);
        self.memory.read_held(self.outside.held(), reports, now_ms);
    }

    /// Whether what its hypervisor has for itself is to be measured again.
    pub fn is_own_due(&self, now_ms: u64) -> bool {
        self.outside.is_own_due(self.memory.holds_more_than_it_has(), now_ms)
    }

    /// Page-out takes what it can of its memory.
    pub fn page_out_begins(&mut self) {
        self.memory.is_taken = true;
    }

    /// Page-out is over: what it took is elsewhere, and has not come back by page reporting.
    pub fn page_out_ended(&mut self, now_ms: u64) {
        self.outside.was_paged_out();
        self.read_resident(now_ms);
        self.memory.is_taken = false;
    }

    /// Memory or virtual CPUs were plugged into it, or unplugged.
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

    /// Its balloon or its daemon's port was attached, or taken away.
    pub fn has_devices(&mut self, can: Capabilities, port: Option<PathBuf>) {
        self.found.can = can;
        if port != self.found.port {
            self.found.port = port;
            self.daemon.moved(self.found.port.clone());
        }
    }

    /// It has started again: earlier reports no longer hold.
    pub fn rebooted(&mut self) {
        self.identity.rebooted(&self.found);
        self.memory.rebooted();
        self.demand.rebooted();
        self.daemon.link.rebooted();
    }

    /// The arbiter's input.
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

    /// Its process, as the arbiter takes it. What z/VM tells of a user is of no process.
    fn process(&self) -> Process {
        let held = self.memory.held;
        let of_process = held.filter(|_| self.memory.counted.is_none());
        Process {
            beside: held.map_or(Bytes::ZERO, |held| held.shared.plus(held.own.size)),
            private: of_process.map(|held| held.private),
            pinned: self.pinned().map(Pinned::why),
            group_max: self.outside.most,
        }
    }

    /// The reason for which its memory stays in the host's, by its machine or by its process.
    pub(crate) fn pinned(&self) -> Option<Pinned> {
        self.found.can.pinned.or_else(|| self.outside.pinned(self.found.memory))
    }

    /// Returns whether it may be given memory: it is awake, or is owed some by the operator's word
    /// or by its own rules.
    pub(crate) fn may_grow(&self, now_ms: u64) -> bool {
        let least = match self.limits.mode {
            Mode::Managed => self.limits.min,
            Mode::Pinned(size) => size,
            Mode::Released => self.limits.max,
        };
        let asks = self.demand.is_urgent || self.demand.sequence.is_some();
        asks || self.memory.actual < least || !self.is_idle_since_sample(now_ms)
    }

    /// It as one of those that its control groups are for.
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
                Some(_) => "[zvm] does not name it",
                None => "it has no balloon",
            });
        }
        if self.part.is_some() && self.found.process.is_none() {
            // Another user can hide its process, and with it all that its claims are held against.
            return Usable::No("it is another user's, and its process is not to be seen");
        }
        if !self.answers {
            return Usable::No("its hypervisor does not answer");
        }
        if self.lent == Lent::No {
            return Usable::No("its pinhead up has not handed it over");
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
