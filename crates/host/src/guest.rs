//! One guest: what it is, what it may have, and what is known of it now.

use crate::inside::{Grants, Inside, Owner, memory_of, memory_of_stats};
use crate::outside::Outside;
use counters::Bytes;
use hypervisor::{BalloonStats, Budget, Found, Id, RunState, Usage, Vcpus};
use policy::arbiter::{GuestSample, Key, Limits, Memory, Usable};
use std::sync::Arc;

/// Virtual CPUs that used less than this since a sample have changed nothing worth asking for:
/// a kernel that turns over in its sleep, and the answer to the question itself.
const SLEEP_MS: f64 = 20.0;
/// The same as a share of the time since the sample, in percent of one CPU.
const SLEEP_PERCENT: f64 = 2.0;
/// More of one CPU than this in a tick is a load, of which a settled daemon is told.
const BUSY_PERCENT: f64 = 10.0;

/// Passes a second that a guest's own words may bring forward, beside those that come anyway, and
/// how many at once: a guest that grows fast says so some times, and one that never stops would
/// have all others looked at ten times a second.
const HURRIES_A_SECOND: u64 = 2;
const HURRIES_BURST: u64 = 20;
/// A guest that starts anew is noted at most this often; none boots in less.
const BOOT_NOTE_MS: u64 = 2_000;

/// What of a guest that sleeps is in the host's memory is read this often.
const RESIDENT_MS: u64 = 5_000;
/// A guest that has slept for so long is looked at every other tick.
const SOUND_MS: u64 = 5_000;

/// What was said of a guest's memory.
#[derive(Clone, Debug)]
pub enum MemorySample {
    /// Its daemon.
    Daemon(Box<wire::Memory>),
    /// The statistics of its balloon.
    Balloon(Box<BalloonStats>),
}

/// A guest.
#[derive(Debug)]
pub struct Guest {
    /// Its number.
    pub id: Id,
    /// The source that found it, by its place among the sources.
    pub source: usize,
    /// What it was found to be.
    pub found: Found,
    /// Who it is in the journal: uuid, process and boot.
    pub who: Arc<model::GuestIdentity>,
    /// The class that its name put it in.
    pub class: String,
    /// What it is entitled to.
    pub limits: Limits,
    /// The memory that it has.
    pub actual: Bytes,
    /// How it runs.
    pub state: RunState,
    /// Whether its hypervisor answers.
    pub answers: bool,
    /// Its daemon.
    pub inside: Inside,
    /// What of it is in the host's memory.
    pub resident: Option<Bytes>,
    /// The same as the arbiter takes it, as old as the question.
    pub memory: Option<Memory>,
    /// What was said last of its memory, as it was said: this is what is recorded.
    pub newest: Option<MemorySample>,
    /// What its virtual CPUs used in the last second.
    pub usage: Option<Usage>,
    /// The size that its own rules are content with.
    pub request: Option<Bytes>,
    /// The request that is to be answered by the next pass.
    pub asked: Option<u32>,
    /// It said that it waits for memory, since the last pass.
    pub urgent: bool,
    /// Its balloon was asked for statistics last.
    pub stats_ms: Option<u64>,
    /// What it did with its disks, as its hypervisor said last.
    pub blocks: Option<hypervisor::BlockStats>,
    /// A question about its memory is open since then.
    pub open_ms: Option<u64>,
    /// The last size that its balloon was told, by this manager.
    pub commanded: Option<Bytes>,
    /// Free memory that came back without the balloon, by page reporting.
    pub reported: Bytes,
    boot: Option<[u8; 16]>,
    boots: u32,
    boot_noted_ms: Option<u64>,
    hurries: Budget,
    samples: u32,
    /// Its process, as the host sees it.
    pub outside: Outside,
    vcpus: Option<Vcpus>,
    /// What its virtual CPUs do could be read at the last tick.
    is_watched: bool,
    ticks: u64,
    tick_ms: Option<u64>,
    resident_ms: Option<u64>,
    ran_ms: f64,
    window: (u64, f64, f64),
}

impl Guest {
    /// A guest as it was found.
    pub fn new(
        id: Id,
        source: usize,
        found: Found,
        limits: Limits,
        class: String,
        grants: Grants,
        now_ms: u64,
    ) -> Guest {
        let vcpus = found.process.filter(|_| !found.vcpu_tids.is_empty());
        Guest {
            id,
            source,
            who: Arc::new(identity(&found, &class, None, 0)),
            class,
            limits,
            actual: found.actual,
            state: found.state,
            answers: true,
            inside: Inside::new(found.port.clone(), Owner::of(&found), grants),
            resident: None,
            memory: None,
            newest: None,
            blocks: None,
            usage: None,
            request: None,
            asked: None,
            urgent: false,
            stats_ms: None,
            open_ms: None,
            commanded: None,
            reported: Bytes::ZERO,
            boot: None,
            boots: 0,
            boot_noted_ms: None,
            hurries: Budget::new(HURRIES_A_SECOND, HURRIES_BURST, now_ms),
            samples: 0,
            outside: Outside::new(found.process),
            vcpus: vcpus.map(|process| Vcpus::new(process.pid, &found.vcpu_tids)),
            is_watched: false,
            ticks: 0,
            tick_ms: None,
            resident_ms: None,
            ran_ms: 0.0,
            window: (now_ms, 0.0, 0.0),
            found,
        }
    }

    /// The arbiter's name for it.
    pub fn key(&self) -> Key {
        Key(self.id.0)
    }

    /// Four times a second: what its virtual CPUs did. True if it has a load.
    pub fn tick(&mut self, now_ms: u64) {
        self.inside.tick(self.found.memory, now_ms);
        self.ticks = self.ticks.wrapping_add(1);
        // A hundred guests sleep: looking at their virtual CPUs is most of what they cost.
        let told_ms = self.memory.map_or(now_ms, |memory| memory.at_ms);
        let is_sound = now_ms.saturating_sub(told_ms) >= SOUND_MS && self.is_asleep(now_ms);
        if is_sound && (self.ticks + self.id.0).is_multiple_of(2) {
            return;
        }
        let before = self.tick_ms.replace(now_ms).unwrap_or(now_ms);
        let usage = self.vcpus.as_mut().and_then(|vcpus| vcpus.usage(now_ms));
        self.is_watched = usage.is_some();
        let Some(usage) = usage else { return };
        let passed_ms = now_ms.saturating_sub(before) as f64;
        let ran_ms = usage.cpu_percent / 100.0 * passed_ms;
        self.ran_ms += ran_ms;
        self.window.1 += ran_ms;
        self.window.2 += usage.steal_percent / 100.0 * passed_ms;
        let window_ms = now_ms.saturating_sub(self.window.0);
        if window_ms >= 1000 {
            let percent = |ms: f64| ms / window_ms as f64 * 100.0;
            self.usage = Some(Usage {
                cpu_percent: percent(self.window.1),
                steal_percent: percent(self.window.2),
            });
            self.window = (now_ms, 0.0, 0.0);
        }
        if usage.cpu_percent >= BUSY_PERCENT {
            self.inside.look(now_ms);
        }
    }

    /// Whether its virtual CPUs have not run, to speak of, since its newest sample.
    pub fn is_asleep(&self, now_ms: u64) -> bool {
        // Rates need two samples, so the first one does not put it to sleep.
        let Some(memory) = self.memory.as_ref().filter(|_| self.samples >= 2) else { return false };
        let passed_ms = now_ms.saturating_sub(memory.at_ms) as f64;
        self.is_watched && self.ran_ms <= SLEEP_MS.max(passed_ms * SLEEP_PERCENT / 100.0)
    }

    /// Takes what its daemon told of its memory. It is as old as the question: how long the
    /// answer was on its way is not known.
    pub fn told(&mut self, told: &wire::Memory, now_ms: u64) {
        self.newest = Some(MemorySample::Daemon(Box::new(*told)));
        if let Some(at_ms) = self.inside.asked_ms(told, now_ms) {
            self.sampled(memory_of(told, self.actual, self.found.memory, at_ms));
        }
    }

    /// Takes its balloon's statistics, as old as the question.
    pub fn stats(&mut self, stats: &BalloonStats, now_ms: u64) {
        let at_ms = self.stats_ms.unwrap_or(now_ms);
        self.newest = Some(MemorySample::Balloon(Box::new(*stats)));
        self.sampled(memory_of_stats(stats, self.actual, at_ms));
    }

    fn sampled(&mut self, memory: Memory) {
        self.memory = Some(memory);
        self.samples = self.samples.saturating_add(1);
        self.open_ms = None;
        self.ran_ms = 0.0;
    }

    /// Whether its memory on the host was not read for a second.
    pub fn is_resident_old(&self, now_ms: u64) -> bool {
        self.resident_ms.is_none_or(|at| now_ms >= at + RESIDENT_MS)
    }

    /// Its memory on the host, read while it runs or its balloon moves. What left it without
    /// the balloon's doing came back by page reporting.
    pub fn read_resident(&mut self, now_ms: u64) {
        self.resident_ms = Some(now_ms);
        let Some(now) = self.outside.resident() else { return };
        if let Some(before) = self.resident
            && self.found.can.page_reporting == Some(true)
            && self.commanded.is_none_or(|size| size >= self.actual)
        {
            self.reported = self.reported.plus(before.less(now));
        }
        self.resident = Some(now);
    }

    /// It has started anew: nothing that was known of its inside holds.
    pub fn rebooted(&mut self) {
        self.boots += 1;
        self.who = Arc::new(identity(&self.found, &self.class, self.boot, self.boots));
        (self.memory, self.request, self.asked, self.urgent) = (None, None, None, false);
        self.newest = None;
        self.samples = 0;
        self.inside.rebooted();
    }

    /// Whether that it has started anew is to be noted.
    pub fn is_worth_a_note(&mut self, now_ms: u64) -> bool {
        let is_it = self.boot_noted_ms.is_none_or(|at| now_ms >= at + BOOT_NOTE_MS);
        if is_it {
            self.boot_noted_ms = Some(now_ms);
        }
        is_it
    }

    /// Whether it may have the next pass at once.
    pub fn may_hurry(&mut self, now_ms: u64) -> bool {
        self.hurries.refill(now_ms);
        let may = self.hurries.left() > 0;
        self.hurries.spend(1);
        may
    }

    /// Its daemon said in which boot it is. True if that is another one than before.
    pub fn is_new_boot(&mut self, boot: [u8; 16]) -> bool {
        let before = self.boot.replace(boot);
        if before == Some(boot) {
            return false;
        }
        self.who = Arc::new(identity(&self.found, &self.class, self.boot, self.boots));
        before.is_some()
    }

    /// What the arbiter is told of it.
    pub fn sample(&self, now_ms: u64) -> GuestSample {
        GuestSample {
            key: self.key(),
            limits: self.limits,
            actual: self.answers.then_some(self.actual),
            resident: self.resident,
            memory: self.memory,
            asleep: self.is_asleep(now_ms),
            usable: self.usable(),
            request: self.request,
            asks: self.asked.is_some(),
            urgent: self.urgent,
            deflates_on_oom: self.found.can.deflate_on_oom == Some(true),
        }
    }

    fn usable(&self) -> Usable {
        if !self.found.can.balloon {
            return Usable::No("it has no balloon");
        }
        if !self.answers {
            return Usable::No("its hypervisor does not answer");
        }
        match self.state {
            RunState::Running => Usable::Yes,
            RunState::Paused => Usable::No("it is paused"),
            RunState::Migrating => Usable::No("it is moving to another host"),
            RunState::Dead => Usable::No("it has stopped"),
        }
    }
}

fn identity(
    found: &Found,
    class: &str,
    boot: Option<[u8; 16]>,
    boots: u32,
) -> model::GuestIdentity {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    model::GuestIdentity {
        uuid: wire::uuid_text(&found.uuid),
        name: found.name.clone(),
        class: class.to_owned(),
        pid: found.process.map(|process| process.pid),
        start_ticks: found.process.map(|process| process.start_ticks),
        boot: boot.map_or_else(|| format!("boot {boots}"), |boot| hex(&boot)),
    }
}
