//! Lifecycle of one guest of a fleet: start, run and end.

use std::os::unix::net::UnixStream;

use agent::{Agent, AgentLink, GuestBounds, PoolGrants, Port};
use base::Bytes;
use hypervisor::Usage;
use procfs::{Shortage, Work};
use qmp::{Command, Incoming, Reply, Ticket};
use vm::{Accel, ConsoleLog, DAEMON_PORT, Footprint, GuestSpec, Net, WhyEmulation, up_marker};
use wire::Status;

use super::balloon::BalloonGrants;
use super::dying::{Dying, Next};
use super::event::Event;
use super::fault::Fault;
use super::kvm;
use super::member_config::{Daemon, MemberConfig};
use super::open::RunningGuest;
use super::parking::Parking;
use super::state::{Counting, Holder, State, Tally};
use super::suspend::{Suspension, remove};
use super::usage::CpuMeter;
use super::watch::BootWatch;
use crate::links::Switch;
use crate::relay::Door;
use crate::tiers::{GuestLimits, Tier};

/// Resources that a guest shares with the other guests of its fleet.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Tier that accounts for the guest's memory.
    pub(super) tier: Tier,
    /// Switch that the guest's network link is connected to.
    pub(super) switch: Switch,
}

/// A guest of a fleet.
#[derive(Debug)]
pub struct Member {
    /// Index of the guest in the fleet.
    pub(super) place: usize,
    pub(super) config: MemberConfig,
    pub(super) shared: Shared,
    pub(super) state: State,
    pub(super) running: Option<RunningGuest>,
    /// The previous QEMU, until it has exited.
    pub(super) dying: Option<Dying>,
    /// Link to the guest's daemon. The link's port is open while no host manager controls the
    /// guest.
    pub(super) link: AgentLink,
    pub(super) balloon: BalloonGrants,
    pub(super) counting: Counting,
    /// Suspension on disk, with the forwarded ports if the guest may be suspended.
    pub(super) suspension: Suspension,
    pub(super) console: ConsoleLog,
    pub(super) cpu: CpuMeter,
    pub(super) holder: Holder,
    pub(super) watch: BootWatch,
    /// Events since the last turn.
    pub(super) events: Vec<Event>,
}

impl Member {
    pub(super) fn new(place: usize, config: MemberConfig) -> Member {
        Member {
            place,
            config,
            shared: Shared::default(),
            state: State::Waiting,
            running: None,
            dying: None,
            link: AgentLink::default(),
            balloon: BalloonGrants::default(),
            counting: Counting::default(),
            suspension: Suspension::default(),
            console: ConsoleLog::default(),
            cpu: CpuMeter::default(),
            holder: Holder::Farm,
            watch: BootWatch::default(),
            events: Vec::new(),
        }
    }

    /// Returns the specification that the guest is started with.
    pub fn spec(&self) -> &GuestSpec {
        &self.config.spec
    }

    /// Returns the state of the guest.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the guest's state as one word: parking, parked, waking, or the word of [`State`].
    pub fn word(&self) -> &'static str {
        let word = self.suspension.word().or(self.parking().and_then(Parking::word));
        word.unwrap_or(self.state.word())
    }

    /// Returns true if the guest is parked, and its page-out or its saving is over.
    pub fn is_parked(&self) -> bool {
        self.suspension.is_on_disk() || self.parking().is_some_and(Parking::is_over)
    }

    /// Returns true if the guest is suspended on disk or on its way back, and so has no usable
    /// QEMU.
    pub fn is_away(&self) -> bool {
        self.suspension.is_away()
    }

    pub(super) fn parking(&self) -> Option<&Parking> {
        Some(&self.running.as_ref()?.parking)
    }

    /// Returns true if the guest has memory left to page out.
    pub(super) fn has_rest(&self) -> bool {
        self.parking().is_some_and(Parking::has_rest)
    }

    /// Returns the process id of the guest's QEMU.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.process.id())
    }

    /// Returns the guest's control port, over which commands are sent. The port can be taken once,
    /// and from a clone only after the clone has its name.
    pub fn take_ctl(&mut self) -> Option<UnixStream> {
        self.running.as_mut().filter(|_| self.link.agent().is_named())?.ctl.take()
    }

    /// Returns the guest's daemon.
    pub fn agent(&self) -> &Agent {
        self.link.agent()
    }

    /// Returns the last status of the guest's daemon.
    pub fn status(&self) -> Option<&Status> {
        self.counting.last()
    }

    /// Returns the counters of the guest over its life.
    pub fn tally(&self) -> &Tally {
        &self.counting.tally
    }

    /// Returns the CPU usage of the guest's vCPUs in the last second.
    pub fn usage(&self) -> Option<Usage> {
        self.cpu.usage.filter(|_| !self.is_parked())
    }

    /// Returns the last output of the guest's console. The guest controls this text, so it must be
    /// escaped.
    pub fn console(&self) -> &[u8] {
        self.console.kept()
    }

    /// Returns the number of bytes that the console has written in all.
    pub fn console_end(&self) -> u64 {
        self.console.end()
    }

    /// Returns the console's output after the first `from` bytes, as far as it is kept.
    pub fn console_since(&self, from: u64) -> &[u8] {
        self.console.since(from)
    }

    /// Returns the number of invalid bytes and messages on the guest's port, and the number of
    /// turns in which the guest flooded the port.
    pub fn misbehaviour(&self) -> (wire::Dropped, u64) {
        self.link.misbehaviour()
    }

    pub(super) fn start(&mut self, now_ms: u64) {
        self.state = State::Booting;
        self.watch.starts(now_ms);
        if let Err(why) = self.start_qemu(None, now_ms) {
            self.end(base::chain(&why));
        }
    }

    /// Starts the guest's QEMU from its specification, or with a saved state of its devices.
    pub(super) fn start_qemu(&mut self, devices: Option<&[u8]>, now_ms: u64) -> Result<(), Fault> {
        self.balloon.yield_to_other_manager();
        let memory = Bytes::mib(self.config.spec.memory_mib);
        let bounds = GuestBounds { memory, cpus: Some(self.config.spec.cpus) };
        self.link = AgentLink::new(match (&self.config.spec.restore, devices) {
            (Some(_), None) => Agent::unnamed(bounds, PoolGrants::Yes),
            _ => Agent::new(bounds, PoolGrants::Yes),
        });
        let number = self.config.spec.net.as_ref().map(|net| net.number);
        if self.config.spec.suspends
            && let Some(net) = &mut self.config.spec.net
        {
            net.listens_at = Net::random_address().map_err(Fault::of)?;
        }
        let started = match devices {
            Some(devices) => self.config.spec.start_resumed(devices),
            None => self.config.spec.start(),
        };
        let mut guest = started.map_err(Fault::of)?;
        if let (Some(number), Some(link)) = (number, guest.link.take()) {
            self.shared.switch.connect(number, link);
        }
        let (running, port) = RunningGuest::new(guest, now_ms).map_err(Fault::of)?;
        self.running = Some(running);
        if devices.is_none() && self.holder == Holder::FarmWhenWoken {
            // A new QEMU starts with all of the guest's memory, so no memory must be returned to
            // the guest.
            self.holder = Holder::Farm;
        }
        // A clone gets its name from this process, even if a host manager has the guest.
        if self.holder != Holder::Manager || !self.link.agent().is_named() {
            self.link.open(Port::new(port, now_ms).map_err(Fault::of)?);
        }
        if self.config.daemon == Daemon::Foreign {
            // A foreign image does not report the end of its boot, so the guest counts as up.
            self.is_up_without_us();
        }
        // Every QEMU must be under the common limit. A QEMU outside of the limit would use memory
        // meant for the other guests.
        let spec = &self.config.spec;
        let footprint = Footprint::of(spec);
        let limits = GuestLimits {
            name: &spec.name,
            memory_bytes: footprint.memory_bytes,
            threads: footprint.threads,
        };
        if let Some(running) = &mut self.running {
            let joined = self.shared.tier.join_guest(running.process.id(), &limits);
            running.kills = joined.map_err(Fault::of)?;
        }
        Ok(())
    }

    /// Marks the guest as up without a connection to its daemon.
    pub(super) fn is_up_without_us(&mut self) {
        let is_managed = self.holder == Holder::Manager;
        self.state = if is_managed { State::Managed } else { State::Unmanaged };
        self.events.push(Event::Up(self.place));
    }

    /// Restarts the guest without KVM once the old QEMU has exited.
    fn emulate(&mut self) {
        self.config.spec.accel = Accel::Emulation(WhyEmulation::KvmSilent);
        // A state saved by KVM cannot be loaded without KVM, so the guest boots.
        self.config.spec.restore = None;
        self.kill(Next::Start);
    }

    fn disconnect(&mut self) {
        self.running = None;
        self.suspension.door.iter().for_each(Door::slam);
        if let Some(net) = &self.config.spec.net {
            self.shared.switch.disconnect(net.number);
        }
        self.shared.tier.leave_guest(&self.config.spec.name);
        self.link.close();
        self.cpu = CpuMeter::default();
    }

    /// Kills the guest's QEMU and closes its connections.
    pub(super) fn kill(&mut self, next: Next) {
        if let Some(running) = self.running.take() {
            // The reason must be read before `disconnect` removes the cgroup.
            let shortage = running.kills.killed();
            self.dying = Some(Dying::kill(running.process, next).lacking(shortage));
        }
        self.disconnect();
    }

    /// Takes the next step once a killed QEMU has exited.
    pub(super) fn bury(&mut self, now_ms: u64) {
        let Some((next, reason)) = self.dying.as_mut().and_then(Dying::gone) else { return };
        self.dying = None;
        // A cgroup cannot be removed while a process is in it.
        self.shared.tier.leave_guest(&self.config.spec.name);
        match next {
            Next::Nothing => {}
            Next::End => self.end(reason),
            Next::Start => self.start(now_ms),
        }
    }

    pub(super) fn end(&mut self, reason: String) {
        if self.running.is_none() {
            // A pending restart is cancelled.
            self.dying.iter_mut().for_each(Dying::nothing_next);
        }
        self.kill(Next::Nothing);
        self.suspension = Suspension::default();
        let before = std::mem::replace(&mut self.state, State::Ended(reason));
        // This function may be called again later in the guest's last turn.
        if !matches!(before, State::Ended(_)) {
            self.events.push(Event::Ended(self.place));
        }
    }

    /// Returns true if the guest boots with KVM and its console has no output yet.
    fn may_be_mute(&self) -> bool {
        self.state == State::Booting
            && self.config.spec.accel == Accel::Kvm
            && self.console.kept().is_empty()
    }

    /// Returns true if the guest boots and its previous QEMU has exited.
    pub(super) fn takes_a_boot(&self) -> bool {
        self.state == State::Booting && self.dying.is_none()
    }

    /// Handles a closed connection: QEMU has ended, or is about to.
    pub(super) fn closed(&mut self) {
        let Some(running) = &self.running else { return };
        let (shortage, words) = (running.kills.killed(), running.process.stderr());
        if self.is_away() {
            let last = words.lines().last().unwrap_or("it has ended");
            let why = match shortage {
                Some(Shortage::Unknown) => format!("its QEMU {} ({last})", Shortage::Unknown),
                Some(shortage) => format!("its QEMU {shortage}"),
                None => format!("its QEMU: {last}"),
            };
            return self.fails_to_come_back(Fault::Qemu(why));
        }
        // If the kernel may have killed QEMU, QEMU's messages show if KVM was the reason, as for a
        // clone.
        let by_words = self.config.spec.restore.is_some() || shortage.is_some();
        let is_unsure = shortage.is_none_or(|shortage| shortage == Shortage::Unknown);
        if is_unsure && self.may_be_mute() && kvm::ended_it(by_words, &words) {
            return self.emulate();
        }
        // The guest ended by itself, so its older saved state must not be resumed.
        self.config.park_file.iter().for_each(|file| remove(file));
        // A QEMU without its connections is of no use, even if it still runs.
        self.kill(Next::End);
    }

    pub(super) fn read_console(&mut self) {
        let Some(running) = &mut self.running else { return };
        let mut buffer = [0; 4096];
        match running.read_console(&mut buffer) {
            Ok(output) => {
                self.console.push(output);
                self.notice_up();
            }
            Err(_) => self.closed(),
        }
    }

    /// Marks the guest as up when its console shows the marker. The marker counts only while
    /// another manager has the daemon's port, or if the guest has no daemon.
    pub(super) fn notice_up(&mut self) {
        let is_silent = self.holder == Holder::Manager || self.config.daemon == Daemon::Missing;
        let is_marked = || self.console.holds(&up_marker(&self.config.spec.name));
        if is_silent && self.state == State::Booting && is_marked() {
            self.is_up_without_us();
        }
    }

    pub(super) fn speak_qmp(&mut self, now_ms: u64) {
        let Some(running) = &mut self.running else { return };
        if running.qmp.receive().is_err() {
            return self.closed();
        }
        while let Some(incoming) = self.running.as_mut().and_then(|running| running.qmp.next()) {
            match incoming {
                Incoming::Ready => {
                    self.qemu_listens();
                    self.cpu.asked = self.ask(Command::QueryCpusFast);
                    if !self.is_named() {
                        // QEMU may have sent its RESUME event already, so QEMU's status is
                        // requested as well.
                        self.ask(Command::QueryStatus);
                    }
                }
                Incoming::Reply { ticket, outcome } => self.answered(ticket, outcome, now_ms),
                Incoming::Event { name, .. } if name == "RESUME" => {
                    if !self.has_resumed(now_ms) {
                        self.send_identity();
                    }
                }
                Incoming::Event { name, .. } if name == "RESET" => self.was_reset(now_ms),
                Incoming::Event { name, data, .. } => {
                    let ours = data.get("id").and_then(|id| id.as_str()) == Some(DAEMON_PORT);
                    let closed = data.get("open").and_then(|open| open.as_bool()) == Some(false);
                    if name == "VSERPORT_CHANGE" && ours && closed && self.state == State::Up {
                        // The daemon has ended, so nothing manages this guest now.
                        self.state = State::Unmanaged;
                    }
                }
            }
        }
        self.flush_qmp();
    }

    pub(super) fn ask(&mut self, command: Command) -> Option<Ticket> {
        let ticket = self.running.as_mut()?.qmp.ask(command);
        self.flush_qmp();
        ticket
    }

    pub(super) fn flush_qmp(&mut self) {
        if self.running.as_mut().is_some_and(|running| running.qmp.send().is_err()) {
            self.closed();
        }
    }

    fn answered(&mut self, ticket: Ticket, outcome: Result<Reply, qmp::Failure>, now_ms: u64) {
        if self.cpu.asked == Some(ticket) {
            if let (Ok(Reply::Vcpus(threads)), Some(pid)) = (&outcome, self.pid()) {
                let tids: Vec<u32> = threads.iter().map(|thread| thread.tid).collect();
                self.cpu.watch(pid, &tids, now_ms);
            }
        } else if self.refuses_state(ticket, &outcome)
            || self.park_answered((ticket, &outcome), now_ms)
        {
        } else if let Ok(Reply::Status(state)) = &outcome {
            if state.running {
                self.send_identity();
            }
        } else {
            self.balloon_answered(ticket, outcome);
        }
    }

    /// Does the periodic work, four times a second.
    pub(super) fn tick(&mut self, now_ms: u64) {
        self.bury(now_ms);
        if self.dying.is_some() {
            return;
        }
        if let Some(outcome) = self.running.as_mut().and_then(|one| one.tick_answer(now_ms)) {
            let name = &self.config.spec.name;
            match outcome {
                Ok(note) => self.events.push(Event::Note(format!("{name} {note}"))),
                Err(why) => return self.end(base::chain(&why)),
            }
            self.flush_qmp();
        }
        if self.is_away() || self.is_left_alone() {
            return;
        }
        // The console of a restored guest stays empty.
        let boots = self.state == State::Booting && self.config.spec.restore.is_none();
        if boots
            && self.may_be_mute()
            && self.pid().is_some_and(|pid| self.watch.kvm.is_mute(pid, now_ms))
        {
            return self.emulate();
        }
        if boots {
            self.watch_boot(now_ms);
        }
        let pid = self.pid();
        if !self.is_named() && self.watch.is_nameless(now_ms, || Work::of_process(pid?)) {
            self.refused("its daemon does not answer");
        }
        self.connect(now_ms);
        let Some(running) = &mut self.running else { return };
        running.console_budget.refill(now_ms);
        let late = self.link.tick(now_ms);
        self.take_events(late, now_ms);
        if let Some(cpu_percent) = self.cpu.tick(self.link.agent().is_settled(), now_ms) {
            self.link.load(cpu_percent, now_ms);
        }
        self.notice_loss();
    }

    /// Detaches a guest that hangs during boot, and restarts it once the evidence is saved.
    fn watch_boot(&mut self, now_ms: u64) {
        if let Some((process, found)) = self.watch.found(&self.config.spec) {
            self.events.push(Event::Hung { guest: self.place, note: found.note.clone() });
            let next = if found.restart { Next::Start } else { Next::Nothing };
            self.dying = Some(Dying::kill(process, next));
            if !found.restart {
                self.end(found.note);
            }
            return;
        }
        if self.watch.is_hanging(now_ms, self.console.end(), self.cpu.run_ns())
            && let Some(running) = self.running.take()
        {
            self.disconnect();
            self.watch.begin(&self.config.spec, running, self.console.kept());
        }
    }
}
