//! The manager's main loop. It waits for the next event, passes the event to the owner of the
//! affected state, and carries out the effects.
//!
//! ```text
//!   poll ─► events ─► owner.step(&World, event, now) ─► effects ─► perform
//!             │         guests, memory, requests, scans, recorder      │
//!             └──────────────── time, control socket ◄─────────────────┘
//! ```
//!
//! Only the poll blocks. A guest that hangs, floods or lies affects only itself.

mod life;
mod parts;
mod perform;
mod timers;

pub use parts::{Options, Parts, Signals, Turn};

use crate::Error;
use crate::answers::{self, View};
use crate::attach::Attachments;
use crate::clock::Clock;
use crate::config::{Place, Settings};
use crate::control::{Answer, Ask, Asked, Failure, Levers, Return, Server, Status};
use crate::effect::{Effect, GuestEvent, MemoryEvent, Now, ParkEvent, RequestEvent, ScanEvent};
use crate::guests::{Entitlement, Guests};
use crate::journal::JournalWriter;
use crate::ksm::Ksm;
use crate::lease::Lease;
use crate::machine::{HostMeter, MachineReader};
use crate::memory::{Memory, Schedule};
use crate::monitor::Monitor;
use crate::pageout::{PageOutEvent, PageOutWorker, PageOuts};
use crate::parking::Parking;
use crate::recorder::Recorder;
use crate::requests::Requests;
use crate::scan::Scans;
use crate::scrape::ScrapeServer;
use crate::sources::Sources;
use crate::world::World;
use base::Bytes;
use hypervisor::{Event, Id};
use model::{HostField, Row};
use policy::ksm;
use reactor::{PollFlags, PollSet, Ready, Watcher};
use std::path::PathBuf;
use timers::Timers;

/// Interval of regular work, such as KSM's control, the lease's heartbeat and the journal's
/// pruning.
const SLOW_MS: u64 = 1_000;
/// Time after the work of a second in which a calm manager does nothing, see [`Manager::is_calm`].
const REST_MS: u64 = 3_000;
/// Interval between those readings of running guests' processes that no decision needs.
const LOOK_MS: u64 = 5_000;

/// Circumstances of this manager's run.
struct Run {
    clock: Clock,
    options: Options,
    place: Place,
    config_path: Option<PathBuf>,
    /// Settings file in force: named by the user, or the default.
    config_in_force: Option<PathBuf>,
    start_ms: u64,
    /// True once the manager has agreed to end for another manager.
    has_yielded: bool,
}

/// Devices that the loop reads and writes. The owners of state have no access to these devices.
struct Devices {
    sources: Sources,
    attachments: Attachments,
    reader: MachineReader,
    control: Server,
    scrape: Option<ScrapeServer>,
    journal: JournalWriter,
    lease: Lease,
    ksm: Ksm,
    page_out: PageOutWorker,
    monitor: Option<Monitor>,
}

/// The manager of all guests of a host: the owners of its state, and the loop that drives them.
pub struct Manager {
    run: Run,
    settings: Settings,
    devices: Devices,
    host: HostMeter,
    guests: Guests,
    memory: Memory,
    schedule: Schedule,
    requests: Requests,
    parking: Parking,
    scans: Scans,
    page_outs: PageOuts,
    recorder: Recorder,
    timers: Timers,
    watcher: Watcher,
    /// Messages for the terminal or the log, each once.
    notices: Vec<String>,
}

/// Keys of the descriptors' owners in the manager's poll set. Sources have the keys from `SOURCES`
/// up.
mod owner {
    pub(super) const STOP: u64 = 0;
    pub(super) const RELOAD: u64 = 1;
    pub(super) const PORTS: u64 = 2;
    pub(super) const ATTACHMENTS: u64 = 3;
    pub(super) const CONTROL: u64 = 4;
    pub(super) const SCRAPE: u64 = 5;
    pub(super) const SOURCES: u64 = 6;
}

/// Gives an owner read access to the whole manager, while the owner's own part is borrowed for
/// writing.
macro_rules! world {
    ($manager:expr) => {
        World {
            settings: &$manager.settings,
            guests: &$manager.guests,
            host: &$manager.host,
            plan: $manager.memory.engine.config,
            acts: !$manager.run.options.dry_run,
            is_leased: $manager.devices.lease.is_kept(),
            ksm_gain: $manager.devices.ksm.gain(),
            page_out: $manager.page_outs.expected(),
        }
    };
}

impl Manager {
    /// Runs one turn. The loop waits for the next event, at most until something is due, and
    /// handles the event.
    pub fn turn(&mut self, signals: &Signals<'_>) -> Result<Turn, Error> {
        let ready = self.wait(signals)?;
        let now = self.now();
        self.receive(&ready, now);
        if now.ms >= self.timers.rest_until_ms || !self.is_calm(now) {
            self.work(now);
        }
        Ok(match (ready.has(owner::STOP), ready.has(owner::RELOAD)) {
            (true, _) => Turn::Stop,
            _ if self.run.has_yielded => Turn::Stop,
            (_, true) => Turn::Reload,
            _ => Turn::On,
        })
    }

    /// Does all work that is due.
    fn work(&mut self, now: Now) {
        if now.ms >= self.timers.tick_ms {
            self.publish();
            self.step_guests(GuestEvent::Tick, now);
            self.page_out(now);
            self.timers.ticked(self.guests.tick_ms(now), now.ms);
        }
        if self.schedule.is_time_to_ask(self.settings.host.interval_ms, now.ms) {
            self.step_guests(GuestEvent::Ask, now);
            self.schedule.asked(self.guests.has_open_question(now), now.ms);
        }
        if self.schedule.is_time_to_pass(now.ms) {
            self.pass(now);
        }
        if now.ms >= self.timers.slow_ms {
            self.timers.slow_ms = now.ms + SLOW_MS;
            self.timers.rest_until_ms = now.ms + REST_MS;
            self.slow(now);
        }
    }

    /// Returns true while all guests sleep soundly, the host has its set point, page-out has no
    /// guest left and nobody asks. A guest that wakes then does not wait for the manager, because
    /// the host has room. If such a guest lacks memory, its daemon reports that at once.
    fn is_calm(&self, now: Now) -> bool {
        let arbiter = &self.memory.engine.arbiter;
        let has_room = !arbiter.is_short() && !arbiter.is_reserved() && !self.host.is_strained();
        let is_asked = self.devices.control.clients() > 0;
        has_room && !is_asked && !self.page_outs.has_more() && self.guests.rest(now)
    }

    fn now(&self) -> Now {
        Now { ms: self.run.clock.ms(), wall_ms: self.run.clock.wall_ms() }
    }

    fn wait(&mut self, signals: &Signals<'_>) -> Result<Ready, Error> {
        let sources_ms = self.devices.sources.next_ms();
        let Devices { sources, attachments, control, scrape, .. } = &self.devices;
        let mut set = PollSet::new();
        set.owner(owner::STOP).add(0, signals.stop, PollFlags::IN);
        set.owner(owner::RELOAD).add(0, signals.reload, PollFlags::IN);
        self.guests.fds(set.owner(owner::PORTS));
        attachments.fds(set.owner(owner::ATTACHMENTS));
        control.fds(set.owner(owner::CONTROL));
        scrape.iter().for_each(|scrape| scrape.fds(set.owner(owner::SCRAPE)));
        sources.fds(owner::SOURCES, &mut set);
        let now = self.now();
        let own_ms = self.timers.tick_ms.min(self.schedule.next_ms());
        let rest_ms = if self.is_calm(now) { self.timers.rest_until_ms } else { 0 };
        let scrape_ms = scrape.as_ref().map_or(u64::MAX, ScrapeServer::next_ms);
        let due = [own_ms.max(rest_ms), sources_ms, control.next_ms(), scrape_ms];
        let due = due.into_iter().min();
        let now_ms = now.ms;
        let wait_ms = match self.run.clock.is_by_hand() {
            true => 0,
            false => due.unwrap_or(now_ms).saturating_sub(now_ms).min(REST_MS),
        };
        set.wait_with(&mut self.watcher, wait_ms).map_err(|source| Error::Poll { source })
    }

    fn receive(&mut self, ready: &Ready, now: Now) {
        for source in 0..self.devices.sources.len() {
            let events = self.devices.sources.turn(source, owner::SOURCES, ready, now.ms);
            for event in events {
                if let Event::Trouble(text) = &event {
                    self.perform(vec![Effect::Complain(text.clone())], now);
                }
                self.step_guests(GuestEvent::Source(source, event), now);
            }
        }
        for port in ready.of(owner::PORTS) {
            self.step_guests(GuestEvent::Port(Id(port.key), port.flags), now);
        }
        if ready.has(owner::ATTACHMENTS) {
            let answers = self.devices.attachments.turn(now.ms);
            self.attached(answers, now);
        }
        self.serve(ready, now);
        let own = ready.of(owner::SCRAPE);
        if let Some(scrape) = &mut self.devices.scrape
            && (!own.is_empty() || now.ms >= scrape.next_ms())
        {
            scrape.turn(own, now.ms);
        }
    }

    fn serve(&mut self, ready: &Ready, now: Now) {
        let control = &mut self.devices.control;
        let own = ready.of(owner::CONTROL);
        if own.is_empty() && now.ms < control.next_ms() {
            return;
        }
        let mut all = Vec::new();
        control.turn(own, now.ms, &mut all);
        let (left, notes) = (control.take_left(), control.take_notes());
        for client in left {
            self.step_requests(RequestEvent::Left(client), now);
        }
        let notes = notes.into_iter().map(|note| Effect::note("control", note, None));
        self.perform(notes.collect(), now);
        for asked in all {
            self.serve_request(asked, now);
        }
    }

    fn serve_request(&mut self, asked: Asked, now: Now) {
        let Asked { client, id, peer, ask } = asked;
        let to = Return { client, id };
        let answer = match ask {
            Ask::Ps => Ok(Answer::Ps(answers::ps(&self.view(now)))),
            Ask::Levers => Ok(Answer::Levers(Box::new(self.levers(now)))),
            Ask::Status => Ok(Answer::Status(Box::new(self.status(now)))),
            Ask::Inputs { guest } => answers::inputs(&self.view(now), &guest).map(Answer::Inputs),
            Ask::Interval { processes } => match &self.devices.monitor {
                Some(monitor) => monitor.passed(&processes),
                None => Err(Failure::new("This manager has no monitor")),
            },
            Ask::Reload => self.reload(now).map(Answer::Reload),
            Ask::Yield => self.yield_to_another(),
            Ask::Capture { guest } => {
                return self.step_guests(GuestEvent::Capture { to, guest }, now);
            }
            Ask::Scan { guest } => return self.step_scans(ScanEvent::Asked { to, guest }, now),
            Ask::Set { guest, change } => {
                return self.step_requests(RequestEvent::Set { to, peer, guest, change }, now);
            }
            Ask::Reserve { mib, timeout_ms, hold_ms } => {
                return self
                    .step_requests(RequestEvent::Reserve { to, mib, timeout_ms, hold_ms }, now);
            }
            Ask::Park { guest } => {
                let asked = ParkEvent::Asked { to, peer, guest, parks: true };
                return self.step_parking(asked, now);
            }
            Ask::Wake { guest } => {
                let asked = ParkEvent::Asked { to, peer, guest, parks: false };
                return self.step_parking(asked, now);
            }
            Ask::Unreserve { reservation } => {
                return self.step_requests(RequestEvent::Unreserve { to, reservation }, now);
            }
            of_farm => Err(Failure::new(format!("A manager has no `{}`", of_farm.verb()))
                .help("ask the farm that runs the guest")),
        };
        self.devices.control.answer(client, id, &answer, now.ms);
    }

    fn view(&self, now: Now) -> View<'_> {
        let (ksm, watching) = (self.devices.ksm.row(), self.watching());
        View { world: world!(self), memory: &self.memory, ksm, watching, now }
    }

    fn status(&self, now: Now) -> Status {
        let Devices { sources, control, journal, lease, .. } = &self.devices;
        let of = |source: usize| self.guests.iter().filter(|g| g.source == source).count();
        let uptime_ms = now.ms.saturating_sub(self.run.start_ms);
        let percent = |us: u64| us as f64 / 10.0 / uptime_ms.max(1) as f64;
        let page_out_us = self.devices.page_out.cpu_us();
        let own_us = self.own_cpu_us();
        let (passes, pass_us) = self.schedule.count_and_cost();
        let failure = self.devices.monitor.as_ref().and_then(Monitor::failure);
        let own = Status {
            dry_run: self.run.options.dry_run,
            uptime_ms,
            config: self.run.config_in_force.as_ref().map(|path| path.display().to_string()),
            sources: sources.rows(of),
            lease: lease.row(),
            journal: journal.row(),
            passes,
            pass_us,
            cpu_percent: Some(percent(own_us)),
            page_out_cpu_percent: Some(percent(page_out_us)),
            clients: control.clients(),
            troubles: sources.troubles().into_iter().chain(failure).collect(),
            ..Status::default()
        };
        answers::status(&self.view(now), own)
    }

    /// Returns the CPU time of the manager without page-out.
    fn own_cpu_us(&self) -> u64 {
        (self.run.clock.cpu_ns() / 1000).saturating_sub(self.devices.page_out.cpu_us())
    }

    fn levers(&self, now: Now) -> Levers {
        let world = world!(self);
        let page_out = self.page_outs.row(&world, self.devices.page_out.cpu_us());
        Levers {
            levers: answers::levers(&self.view(now), page_out),
            guests: self.page_outs.guests(&world, now),
            manager_cpu_us: self.own_cpu_us(),
            uptime_ms: now.ms.saturating_sub(self.run.start_ms),
        }
    }

    fn step_guests(&mut self, event: GuestEvent, now: Now) {
        let by = Entitlement {
            settings: &self.settings,
            acts: !self.run.options.dry_run,
            lease: &self.devices.lease,
        };
        let effects = self.guests.step(by, event, now);
        self.perform(effects, now);
    }

    fn step_memory(&mut self, event: MemoryEvent, now: Now) {
        let world = world!(self);
        let effects = self.memory.step(&world, event, now);
        self.perform(effects, now);
    }

    fn step_requests(&mut self, event: RequestEvent, now: Now) {
        let world = world!(self);
        let effects = self.requests.step(&world, event, now);
        self.perform(effects, now);
    }

    fn step_parking(&mut self, event: ParkEvent, now: Now) {
        let world = world!(self);
        let kept = |guest: &_| self.page_outs.why_kept(&world, guest, now);
        let effects = self.parking.step(&world, event, &kept, now);
        self.perform(effects, now);
    }

    fn step_scans(&mut self, event: ScanEvent, now: Now) {
        let world = world!(self);
        let effects = self.scans.step(&world, event, now);
        self.perform(effects, now);
    }

    fn step_page_outs(&mut self, event: PageOutEvent, now: Now) {
        let world = world!(self);
        let effects = self.page_outs.step(&world, event, now);
        self.perform(effects, now);
    }

    /// Handles the reports of page-out's thread, and sends new jobs to the thread.
    fn page_out(&mut self, now: Now) {
        for report in self.devices.page_out.reports() {
            self.step_page_outs(PageOutEvent::Reported(Box::new(report)), now);
        }
        self.step_page_outs(PageOutEvent::Tick, now);
    }

    /// Sends the values of a second to the monitor, and takes the monitor's messages.
    fn record(&mut self, now: Now) {
        let world = world!(self);
        let Some(monitor) = &mut self.devices.monitor else { return };
        let mut host = Row::default();
        host.set(HostField::OwnRun, Some(self.run.clock.cpu_ns()));
        host.set(HostField::MissedMoments, Some(monitor.missed));
        self.page_outs.record(&mut host, self.devices.page_out.cpu_us());
        monitor.send(self.recorder.known(&world, &self.scans, host, now));
        let mut effects = self.recorder.asks(&world, now);
        effects.extend(monitor.take_notices().into_iter().map(Effect::Complain));
        self.perform(effects, now);
    }

    /// Publishes the monitor's newest moment, if there is a new one and metrics are served.
    fn publish(&mut self) {
        let Devices { scrape: Some(scrape), monitor: Some(monitor), .. } = &mut self.devices else {
            return;
        };
        if monitor.failure().is_some() {
            return scrape.forget();
        }
        if let Some(moment) = monitor.newest() {
            scrape.publish(&moment, &|who| self.guests.is_present(who));
        }
    }

    fn read_host(&mut self, now: Now) {
        let read = self.devices.sources.host(self.devices.reader.read());
        let read = read.map(|machine| machine.within(self.guests.rooms.common()));
        let total = |host: &HostMeter| host.machine().map(|machine| machine.total);
        let before = total(&self.host);
        self.notices.extend(self.host.observe(read, now.ms));
        if total(&self.host).is_some_and(|total| before != Some(total)) {
            // The data of another host may arrive later than this machine's, and any host may grow.
            self.configure(now);
        }
        if self.page_outs.take_worked(self.devices.page_out.slices()) {
            // Swapping by page-out itself is no sign of a memory shortage.
            self.host.rates.swap_out_s = None;
        }
    }

    fn pass(&mut self, now: Now) {
        let before_us = self.run.clock.us();
        self.read_host(now);
        self.step_guests(GuestEvent::PassBegins, now);
        self.step_memory(MemoryEvent::Pass, now);
        self.step_guests(GuestEvent::PassEnded, now);
        self.notices.extend(self.devices.journal.flush());
        self.schedule.passed(self.run.clock.us() - before_us);
    }

    fn slow(&mut self, now: Now) {
        let sample = self.ksm_sample(now);
        let Devices { lease, ksm, .. } = &mut self.devices;
        lease.beat(now.ms);
        ksm.drive(&sample, now.ms);
        let complaints = lease.take_trouble().into_iter().chain(ksm.take_note());
        let complaints = complaints.map(Effect::Complain).collect();
        self.perform(complaints, now);
        self.attach(now);
        self.step_scans(ScanEvent::Second, now);
        self.step_parking(ParkEvent::Second, now);
        let lack = self.lack();
        let host = self.devices.page_out.read_host(lack);
        let off = self.devices.page_out.off().map(str::to_owned);
        self.step_page_outs(PageOutEvent::Second { host, off }, now);
        self.greet(now);
        self.record(now);
        if now.ms >= self.timers.look_ms {
            self.timers.look_ms = now.ms + LOOK_MS;
            self.step_guests(GuestEvent::LookAtProcesses, now);
        }
        let keep = &self.settings.journal;
        let trouble = self.devices.journal.prune(keep.keep_ms, keep.max_size.0, now);
        self.perform(trouble.into_iter().map(Effect::Complain).collect(), now);
    }

    /// Returns the free memory that the host or the budget lacks. Page-out and the balloon use the
    /// same value. With different values, each could wait for the other.
    fn lack(&self) -> Bytes {
        let lack = self.memory.engine.arbiter.lack();
        self.host.machine().map_or(Bytes::ZERO, |_| lack)
    }

    fn ksm_sample(&mut self, now: Now) -> ksm::Sample {
        let plan = self.memory.engine.config;
        let world = world!(self);
        // The value is within the budget, so that KSM and the arbiter react to the same shortage.
        let available = world.host.available(world.settings, world.owners().sum());
        ksm::Sample {
            guests: self.guests.len(),
            owners: self.guests.owners(self.devices.sources.others()),
            arrivals: self.guests.arrivals,
            available: available.unwrap_or(Bytes::ZERO),
            set_point: plan.set_point,
            hysteresis: plan.hysteresis,
            counters: self.devices.ksm.read(now.ms),
        }
    }
}
