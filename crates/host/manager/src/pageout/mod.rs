//! Page-out: the kernel moves memory of sleeping guests to the host's swap. While the host is below
//! its set point, idle memory of running guests is paged out as well.
//!
//! ```text
//!   once a second: host ─┐                         ┌─► Job ─► PageOutWorker (a thread)
//!   a tick: guests ──────┼─► policy::pageout::step ┤
//!   Report of the thread ┘                         └─► journal: gained, came back, left alone
//! ```
//!
//! [`policy::pageout`] decides which guests to page out, and when. This module provides the
//! policy's samples, and accounts for gains and costs.

mod host;
mod ledger;
mod worker;

pub use worker::PageOutWorker;
pub(crate) use worker::{Job, JobResult, Report, Task};

use crate::config::{PageOutMode, PageOutSettings};
use crate::control::{LeverRow, PagedOutRow};
use crate::effect::{Effect, GuestEvent, Now};
use crate::guest::ManagedGuest;
use crate::world::World;
use base::Bytes;
use hypervisor::{Id, RunState};
use ledger::Ledger;
use model::{HostField, Row};
use policy::arbiter::{Key, Mode};
use policy::pageout::{
    Config, Finding, GuestSample, HostSample, Lever, Order, PageOut, Standing, Taken,
};
use std::collections::{BTreeMap, BTreeSet};
use store::kinds::{CAME_BACK, LEFT_ALONE, PAGE_OUT};

/// CPU usage up to which virtual CPUs hardly run, in percent of one CPU. Timers and the daemon's
/// regular check cause that much.
const IDLE_PERCENT: f64 = 2.0;

/// Number of passes without a newly paged-out slice after which the kernel counts as hung, because
/// of a disk or of the guest's process.
const STALLED_PASSES: u32 = 30;

/// An event for the owner of page-out.
#[derive(Debug)]
pub(crate) enum PageOutEvent {
    /// Sent once a second, with the host's state, and with the reason if page-out is unavailable.
    Second { host: HostSample, off: Option<String> },
    /// Sent at each reading of the guests, up to four times a second.
    Tick,
    /// The thread has done a job, or could not accept it.
    Reported(Box<Report>),
    /// A guest has rebooted.
    Rebooted(Id),
}

/// Page-out of all guests.
#[derive(Debug, Default)]
pub(crate) struct PageOuts {
    policy: PageOut,
    host: HostSample,
    off: Option<String>,
    /// Memory that the host would soon gain by page-out in a shortage of memory.
    expected: Bytes,
    /// True while page-out goes from guest to guest.
    has_more: bool,
    /// Time since which a guest's virtual CPUs have hardly run.
    idle_since_ms: BTreeMap<Id, u64>,
    /// Guests that the kernel refuses to page out.
    refused: BTreeSet<Id>,
    /// Messages already sent to the user, because each is sent only once.
    told: BTreeSet<String>,
    ledger: Ledger,
    /// Number of slices paged out until the last pass.
    slices: u64,
    /// Passes in a row without a new slice during a page-out.
    stalled: u32,
}

impl PageOuts {
    /// Returns true if page-out has written to the host's swap since the last call. `slices` is the
    /// number of slices paged out so far. Swapping by page-out does not show that the host is short
    /// of memory.
    pub(crate) fn take_worked(&mut self, slices: u64) -> bool {
        let has_worked = std::mem::replace(&mut self.slices, slices) != slices;
        self.stalled = match has_worked || self.policy.taking().is_none() {
            true => 0,
            false => self.stalled.saturating_add(1),
        };
        has_worked
    }

    /// Returns the memory that the host would soon gain by page-out in a shortage of memory.
    pub(crate) fn expected(&self) -> Bytes {
        self.expected
    }

    /// Returns true while page-out goes from guest to guest.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    pub(crate) fn step(&mut self, world: &World<'_>, event: PageOutEvent, now: Now) -> Vec<Effect> {
        match event {
            PageOutEvent::Second { host, off } => {
                (self.host, self.off) = (host, off);
                self.tell_state(world)
            }
            PageOutEvent::Tick => self.tick(world, now),
            PageOutEvent::Reported(report) => self.reported(world, *report, now),
            PageOutEvent::Rebooted(guest) => {
                let key = Key(guest.0);
                let is_taken = self.policy.taking() == Some(key);
                self.policy.forget(key);
                self.refused.remove(&guest);
                if is_taken { vec![Effect::CutPageOut] } else { Vec::new() }
            }
        }
    }

    /// Reports the reason why page-out is impossible on this host, once.
    fn tell_state(&mut self, world: &World<'_>) -> Vec<Effect> {
        let Some(why) = self.why_off(world) else { return Vec::new() };
        let is_silent = !world.acts || world.settings.page_out.mode == PageOutMode::Off;
        if is_silent || world.guests.len() == 0 || !self.told.insert(why.clone()) {
            return Vec::new();
        }
        let text = format!("Page-out is off: {why}");
        vec![Effect::note(PAGE_OUT, text.clone(), None), Effect::Notify(text)]
    }

    /// Returns the reason why page-out is off for all guests, if it is off.
    fn why_off(&self, world: &World<'_>) -> Option<String> {
        if world.settings.page_out.mode == PageOutMode::Off {
            return Some("[pageout] mode = \"off\"".to_owned());
        }
        if !world.acts {
            return Some("a dry run moves nothing".to_owned());
        }
        let none = "this host has no swap; add zram or a swap device for the memory of sleeping \
                    guests";
        let no_swap = self.host.swap_total == Some(Bytes::ZERO);
        self.off.clone().or_else(|| no_swap.then(|| none.to_owned()))
    }

    /// Returns the reason why a parked guest is not paged out, if there is one.
    pub(crate) fn why_kept(
        &self,
        world: &World<'_>,
        guest: &ManagedGuest,
        now: Now,
    ) -> Option<String> {
        let of_guest = || {
            let config = config(&world.settings.page_out);
            let sample = self.sample(world, guest, now);
            let standing = self.policy.standing(&config, &sample, self.host.is_short(), now.ms);
            let stays = matches!(
                standing,
                Standing::Excepted | Standing::Incompressible | Standing::Barren
            );
            stays.then(|| {
                format!("its page-out state is `{}`: see `pinhead ps --levers`", standing.name())
            })
        };
        self.why_off(world).or_else(of_guest)
    }

    fn tick(&mut self, world: &World<'_>, now: Now) -> Vec<Effect> {
        let (is_off, taking) = (self.why_off(world).is_some(), self.policy.taking());
        (self.expected, self.has_more) = (Bytes::ZERO, false);
        if is_off && taking.is_none() {
            return Vec::new();
        }
        self.watch_idle(world, now);
        let guests: Vec<GuestSample> =
            world.guests.iter().map(|guest| self.sample(world, guest, now)).collect();
        let mut effects = Vec::new();
        // A running page-out ends early if it could not start now, for example because its guest
        // has woken or swap is full.
        let config = config(&world.settings.page_out);
        let is_over = |key: &Key| {
            let guest = guests.iter().find(|guest| guest.key == *key);
            let may = |guest| self.policy.may_go_on(&config, guest, self.host.is_short());
            !guest.is_some_and(may)
        };
        // Page-out adds to pressure itself, so pressure only prevents the start of the next
        // page-out.
        let is_full = matches!(self.policy.lever(), Lever::NoSwap | Lever::SwapFull);
        if taking.as_ref().is_some_and(|key| is_off || is_full || is_over(key)) {
            effects.push(Effect::CutPageOut);
        }
        if is_off {
            return effects;
        }
        let orders = self.policy.step(&config, &self.host, &guests, now.ms);
        self.has_more = self.policy.has_more();
        if self.stalled < STALLED_PASSES {
            self.expected = self.policy.expected_gain(&config, &guests, now.ms);
        }
        for order in orders {
            let (Order::Take(key) | Order::TakePart(key, _) | Order::Look(key)) = order;
            let Some(guest) = world.guests.get(Id(key.0)) else { continue };
            let Some(process) = guest.found.process else { continue };
            let task = match order {
                Order::Take(_) => Task::Take(None),
                Order::TakePart(_, part) => Task::Take(Some(part)),
                Order::Look(_) => Task::Look,
            };
            if matches!(task, Task::Take(_)) {
                effects.push(Effect::Guests(GuestEvent::PageOutBegins(guest.id)));
            }
            effects.push(Effect::PageOut(Job { guest: guest.id, process, task }));
        }
        effects
    }

    fn watch_idle(&mut self, world: &World<'_>, now: Now) {
        self.idle_since_ms.retain(|guest, _| world.guests.get(*guest).is_some());
        self.refused.retain(|guest| world.guests.get(*guest).is_some());
        self.ledger.retain(|guest| world.guests.get(guest).is_some());
        for guest in world.guests.iter() {
            let is_idle = match guest.state {
                RunState::Paused(_) => true,
                _ => guest.cpu.usage.is_some_and(|usage| usage.cpu_percent <= IDLE_PERCENT),
            };
            match is_idle {
                true => _ = self.idle_since_ms.entry(guest.id).or_insert(now.ms),
                false => _ = self.idle_since_ms.remove(&guest.id),
            }
        }
    }

    fn sample(&self, world: &World<'_>, guest: &ManagedGuest, now: Now) -> GuestSample {
        let attention = world.guests.attention(guest.id);
        let since_ms = self.idle_since_ms.get(&guest.id);
        let is_there = matches!(guest.state, RunState::Running | RunState::Paused(_));
        GuestSample {
            key: guest.key(),
            asleep_ms: match guest.cpu.is_parked() {
                // The guest was parked on request, so nobody needs its memory.
                true => Some(u64::MAX),
                false => since_ms.map(|since| now.ms.saturating_sub(*since)),
            },
            busy_percent: guest.cpu.usage.map_or(0, |usage| usage.cpu_percent as u64),
            // The hypervisor's own memory is included, because it goes to swap as well.
            held: guest.memory.held.map(|held| held.private),
            is_in_need: attention.strained || guest.demand.is_urgent,
            is_moving: attention.moves,
            is_excepted: !is_there
                || guest.found.process.is_none()
                || guest.limits.mode == Mode::Released
                || self.refused.contains(&guest.id)
                || guest.outside.groups.bars_swap()
                || guest.pinned().is_some()
                || !world.settings.may_page_out(&guest.identity.class),
        }
    }

    fn reported(&mut self, world: &World<'_>, report: Report, now: Now) -> Vec<Effect> {
        let Report { guest: id, process, result } = report;
        let key = Key(id.0);
        let Some(guest) = world.guests.get(id).filter(|guest| guest.found.process == Some(process))
        else {
            self.policy.forget(key);
            return Vec::new();
        };
        let mut effects = Vec::new();
        match result {
            JobResult::Taken { taken, cpu_us } => {
                effects.push(Effect::Guests(GuestEvent::PageOutEnded(id)));
                let findings = self.policy.taken(key, &taken, now.ms);
                self.ledger.taken(id, &taken, cpu_us, now.wall_ms);
                for finding in findings {
                    effects.extend(self.tell(world, guest, finding, Some((&taken, cpu_us))));
                }
            }
            JobResult::Seen(held) => {
                if let Some(finding) = self.policy.seen(key, held) {
                    effects.extend(self.tell(world, guest, finding, None));
                }
            }
            JobResult::Gone => {
                effects.push(Effect::Guests(GuestEvent::PageOutEnded(id)));
                self.policy.failed(key, now.ms);
            }
            JobResult::Refused(why) => {
                effects.push(Effect::Guests(GuestEvent::PageOutEnded(id)));
                self.policy.forget(key);
                self.refused.insert(id);
                let text = format!("the kernel refuses to page it out: {why}");
                if self.told.insert(why) {
                    effects.push(Effect::Notify(format!("{}: {text}", guest.found.name)));
                }
                effects.push(Effect::note(PAGE_OUT, text, Some(guest.who())));
            }
        }
        effects
    }

    /// Enters a result in the guest's account. Returns a note for the journal if the result is
    /// news.
    fn tell(
        &mut self,
        world: &World<'_>,
        guest: &ManagedGuest,
        finding: Finding,
        taking: Option<(&Taken, u64)>,
    ) -> Option<Effect> {
        let (kind, text) = match finding {
            Finding::Gained(gained) => {
                let (taken, cpu_us) = taking?;
                (PAGE_OUT, ledger::gained(gained, taken, cpu_us, self.policy.ran(guest.key())))
            }
            Finding::WorkingSet { size, came_back } => {
                self.ledger.came_back(guest.id, came_back);
                let account = self.ledger.get(guest.id)?;
                (CAME_BACK, ledger::measured(account, size, came_back))
            }
            Finding::CameBack(came_back) => {
                self.ledger.came_back(guest.id, came_back);
                return None;
            }
            Finding::Promoted(promoted) => {
                if !self.ledger.promoted(guest.id, promoted) {
                    return None;
                }
                let config = config(&world.settings.page_out);
                let rest_ms = self.policy.rest_ms(&config, guest.key(), self.host.is_short());
                (CAME_BACK, ledger::woken(self.ledger.get(guest.id)?, rest_ms))
            }
            Finding::Incompressible { ratio_permille } => {
                (LEFT_ALONE, ledger::incompressible(ratio_permille))
            }
            Finding::Barren(gained) => (LEFT_ALONE, ledger::barren(gained)),
        };
        Some(Effect::note(kind, text, Some(guest.who())))
    }

    /// Adds the gains and costs so far to a recorded row.
    pub(crate) fn record(&self, row: &mut Row<HostField>, cpu_us: u64) {
        self.ledger.record(row);
        row.set(HostField::PageOutRun, Some(cpu_us.saturating_mul(1000)));
    }

    pub(crate) fn row(&self, world: &World<'_>, cpu_us: u64) -> LeverRow {
        let off = self.why_off(world);
        let state = match &off {
            Some(_) => "off".to_owned(),
            None if self.stalled >= STALLED_PASSES => "hangs".to_owned(),
            None if self.policy.lever() == Lever::Ready => "on".to_owned(),
            None => format!("rests: {}", self.policy.lever()),
        };
        LeverRow {
            name: "page-out".to_owned(),
            state,
            why: off,
            guests: Some(self.ledger.guests()),
            cost_us: Some(cpu_us),
            alarms: Some(self.policy.alarms()),
            ..self.ledger.row()
        }
    }

    pub(crate) fn guests(&self, world: &World<'_>, now: Now) -> Vec<PagedOutRow> {
        let config = config(&world.settings.page_out);
        let row = |guest: &ManagedGuest| {
            let sample = self.sample(world, guest, now);
            let standing = self.policy.standing(&config, &sample, self.host.is_short(), now.ms);
            let account = self.ledger.get(guest.id).copied().unwrap_or_default();
            let working_set = self.policy.working_set(guest.key());
            account.row(&guest.found.name, standing.name(), working_set)
        };
        let mut rows: Vec<PagedOutRow> = world.guests.iter().map(row).collect();
        rows.sort_by(|a, b| base::natural(&a.name, &b.name));
        rows
    }
}

fn config(settings: &PageOutSettings) -> Config {
    Config {
        after_ms: settings.after_ms,
        swap_max_permille: settings.swap_permille,
        // The policy's unit is a hundredth of a percent.
        pressure_max: settings.pressure_permille * 10,
        takes_running: settings.mode == PageOutMode::All,
    }
}
