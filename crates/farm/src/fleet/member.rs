//! One guest of a fleet: its connections, what it said, and what it was granted.

use std::io::Read;
use std::os::unix::net::UnixStream;

use hypervisor::{Budget, Port, Usage, Vcpus};
use qmp::{Command, Incoming, Reply, Ticket};
use reactor::is_passing;
use wire::{Grant, Hello, Memory, PoolRequest, Status, ToGuest};

use super::Event;
use super::capture::{Captured, Captures};
use super::grant::Floor;
use super::naming::Naming;
use super::open::{CONSOLE_A_SECOND, CONSOLE_BURST, CONSOLE_READ, Open};
use super::seat::{Daemon, Seat};
use super::state::{State, Tally};
use super::watch::{BootWatch, Sight, Verdict};
use crate::qemu::DAEMON_PORT;
use crate::tiers::Tier;
use crate::{Accel, CONSOLE_BYTES_MAX, GuestSpec, WhyEmulation};

/// More of one CPU than this is a load and not a kernel that turns over in its sleep.
const BUSY_PERCENT: f64 = 10.0;
/// A kernel on a KVM that works has long said something by then, if only that it is up.
const KVM_SILENCE_MS: u64 = 20_000;
/// How often the usage that people see is taken.
const USAGE_MS: u64 = 1_000;

/// A balloon command that QEMU has not answered yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ticket: Ticket,
    pub(super) grant: Grant,
}

/// A guest.
#[derive(Debug)]
pub struct Member {
    pub(super) spec: GuestSpec,
    pub(super) floor: Floor,
    pub(super) daemon: Daemon,
    /// Whose memory its own is counted with.
    pub(super) tier: Tier,
    pub(super) state: State,
    pub(super) open: Option<Open>,
    pub(super) hello: Option<Hello>,
    pub(super) status: Option<Status>,
    pub(super) tally: Tally,
    console: Vec<u8>,
    /// How much it has said in all.
    pub(super) console_end: u64,
    vcpus: Vcpus,
    vcpus_asked: Option<Ticket>,
    usage: Option<Usage>,
    usage_ms: u64,
    pub(super) looked_ms: u64,
    pub(super) pending: Option<Pending>,
    /// The newest request, while QEMU is busy with an older one.
    pub(super) wanted: Option<PoolRequest>,
    pub(super) granted_pages: u64,
    pub(super) captures: Captures,
    pub(super) captured: Vec<Captured>,
    started_ms: u64,
    /// How its memory was when its daemon said so last.
    pub(super) memory: Option<Memory>,
    /// How often its daemon has said that tasks wait for memory.
    pub(super) needs: u64,
    /// What of the last status is in the tally.
    pub(super) tallied: Status,
    /// Whether a host manager has its port and its balloon.
    pub(super) managed: bool,
    pub(super) came_up: bool,
    was_reset: bool,
    ended: bool,
    watch: BootWatch,
    hung: Option<String>,
}

impl Member {
    pub(crate) fn new(seat: Seat) -> Member {
        let Seat { spec, floor, daemon } = seat;
        Member {
            spec,
            floor,
            daemon,
            tier: Tier::default(),
            state: State::Waiting,
            open: None,
            hello: None,
            status: None,
            tally: Tally::default(),
            console: Vec::new(),
            console_end: 0,
            vcpus: Vcpus::default(),
            vcpus_asked: None,
            usage: None,
            usage_ms: 0,
            looked_ms: 0,
            pending: None,
            wanted: None,
            granted_pages: 0,
            captures: Captures::default(),
            captured: Vec::new(),
            started_ms: 0,
            memory: None,
            needs: 0,
            tallied: Status::default(),
            managed: false,
            came_up: false,
            was_reset: false,
            ended: false,
            watch: BootWatch::default(),
            hung: None,
        }
    }

    /// How it was started.
    pub fn spec(&self) -> &GuestSpec {
        &self.spec
    }

    /// How it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The process of its QEMU.
    pub fn pid(&self) -> Option<u32> {
        self.open.as_ref().map(|open| open.process.id())
    }

    /// Its control port, to give commands through; only once, and not before a clone has taken
    /// its name.
    pub fn take_ctl(&mut self) -> Option<UnixStream> {
        self.open.as_mut().filter(|open| open.naming == Naming::Done)?.ctl.take()
    }

    /// What its daemon said of itself.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref()
    }

    /// What its daemon said last.
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// How its memory was when its daemon said so last.
    pub fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// How often its daemon has said that tasks wait for memory.
    pub fn needs(&self) -> u64 {
        self.needs
    }

    /// What it did over its life.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What its virtual CPUs cost in the last second.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The last words of its console. They come from the guest: escape them.
    pub fn console(&self) -> &[u8] {
        &self.console
    }

    /// Bytes and messages of its port that were of no use, and turns that it flooded.
    pub fn misbehaviour(&self) -> (wire::Dropped, u64) {
        let port = self.open.as_ref().and_then(|open| open.port.as_ref());
        port.map_or((wire::Dropped::default(), 0), |port| (port.dropped(), port.floods))
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    pub(crate) fn is_booting(&self) -> bool {
        self.state == State::Booting
    }

    pub(crate) fn open(&self) -> Option<&Open> {
        self.open.as_ref()
    }

    pub(crate) fn start(&mut self, now_ms: u64) {
        self.state = State::Booting;
        self.started_ms = now_ms;
        let started = self.spec.start().map_err(|e| e.to_string()).and_then(|guest| {
            let naming = if self.spec.restore.is_some() { Naming::Due } else { Naming::Done };
            let ready = || -> std::io::Result<Open> {
                guest.console.set_nonblocking(true)?;
                guest.qmp.set_nonblocking(true)?;
                // A clone is told its name by us, whoever manages it then.
                let port = match self.managed && naming == Naming::Done {
                    true => None,
                    false => Some(Port::new(guest.port, now_ms)?),
                };
                let (process, console, qmp) = (guest.process, guest.console, guest.qmp);
                let (client, ctl) = (qmp::Client::new(), guest.ctl);
                let console_budget = Budget::new(CONSOLE_A_SECOND, CONSOLE_BURST, now_ms);
                let _sockets = guest.sockets;
                let open = Open {
                    process,
                    console,
                    qmp,
                    port,
                    client,
                    ctl,
                    uuid: guest.uuid,
                    go_on: guest.go_on,
                    going_on: Vec::new(),
                    naming,
                    console_budget,
                    _sockets,
                };
                Ok(open)
            };
            ready().map_err(|e| e.to_string())
        });
        match started {
            Ok(open) => {
                self.open = Some(open);
                self.trust_foreign();
                self.join_tier();
            }
            Err(reason) => self.end(reason),
        }
    }

    /// Starts it again without KVM. The old QEMU ends with its connections.
    fn emulate(&mut self, now_ms: u64) {
        self.open = None;
        self.vcpus = Vcpus::default();
        self.spec.accel = Accel::Emulation(WhyEmulation::KvmSilent);
        // A state that KVM has saved is of no use without it: this one boots.
        self.spec.restore = None;
        self.start(now_ms);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(open) = &mut self.open {
            // Its end is seen on its connections.
            let _ = open.process.kill();
        }
    }

    pub(super) fn end(&mut self, reason: String) {
        self.open = None;
        self.vcpus = Vcpus::default();
        self.usage = None;
        self.state = State::Ended(reason);
        self.ended = true;
    }

    /// A connection is closed: QEMU has ended, or is about to.
    pub(super) fn closed(&mut self) {
        let Some(open) = &mut self.open else { return };
        // A QEMU that cannot use KVM after all ends before its guest says a word.
        if self.state == State::Booting && self.spec.accel == Accel::Kvm && self.console.is_empty()
        {
            return self.emulate(self.started_ms);
        }
        // It is of no use without its connections, whatever it still does.
        let status = open.process.kill();
        let words = open.process.stderr();
        let reason = match (status, words.trim()) {
            (Ok(status), "") => format!("QEMU ended: {status}"),
            (Ok(status), words) => format!("QEMU ended: {status}: {words}"),
            (Err(error), _) => format!("QEMU is gone: {error}"),
        };
        self.end(reason);
    }

    pub(crate) fn read_console(&mut self) {
        let Some(open) = &mut self.open else { return };
        let mut buffer = [0; 4096];
        match open.console.read(&mut buffer) {
            Ok(0) => self.closed(),
            Ok(count) => {
                open.console_budget.spend(CONSOLE_READ.max(count as u64));
                self.console.extend_from_slice(&buffer[..count]);
                self.console_end += count as u64;
                let extra = self.console.len().saturating_sub(CONSOLE_BYTES_MAX);
                self.console.drain(..extra);
                self.notice_up();
            }
            Err(error) if is_passing(&error) => {}
            Err(_) => self.closed(),
        }
    }

    pub(crate) fn speak_qmp(&mut self, now_ms: u64) {
        let Some(open) = &mut self.open else { return };
        let mut buffer = [0; 8192];
        match open.qmp.read(&mut buffer) {
            Ok(0) => return self.closed(),
            Ok(count) => open.client.feed(&buffer[..count]),
            Err(error) if is_passing(&error) => {}
            Err(_) => return self.closed(),
        }
        while let Some(incoming) = self.open.as_mut().and_then(|open| open.client.poll()) {
            match incoming {
                Ok(Incoming::Ready(_)) => {
                    self.tell_state();
                    self.vcpus_asked = self.ask(Command::QueryCpusFast);
                    self.ask_whether_it_runs();
                }
                Ok(Incoming::Reply { ticket, outcome }) => self.answered(ticket, outcome, now_ms),
                Ok(Incoming::Event { name, .. }) if name == "RESUME" => self.tell_name(),
                Ok(Incoming::Event { name, .. }) if name == "RESET" => self.was_reset = true,
                Ok(Incoming::Event { name, data, .. }) => {
                    let ours = data.get("id").and_then(|id| id.as_str()) == Some(DAEMON_PORT);
                    let closed = data.get("open").and_then(|open| open.as_bool()) == Some(false);
                    if name == "VSERPORT_CHANGE" && ours && closed && self.state == State::Up {
                        // However its daemon ended: nobody manages this guest now.
                        self.state = State::Unmanaged;
                    }
                }
                // QEMU's own nonsense cannot be mended from here; the next line may be fine.
                Err(_) => {}
            }
        }
        self.flush_qmp();
    }

    pub(super) fn ask(&mut self, command: Command) -> Option<Ticket> {
        let ticket = self.open.as_mut()?.client.ask(command).ok();
        self.flush_qmp();
        ticket
    }

    fn flush_qmp(&mut self) {
        use std::io::Write;
        let Some(open) = &mut self.open else { return };
        while !open.client.output().is_empty() {
            match open.qmp.write(open.client.output()) {
                Ok(count) => open.client.advance(count),
                Err(error) if is_passing(&error) => return,
                Err(_) => return self.closed(),
            }
        }
    }

    fn answered(&mut self, ticket: Ticket, outcome: Result<Reply, qmp::Failure>, now_ms: u64) {
        if self.vcpus_asked == Some(ticket) {
            if let (Ok(Reply::Vcpus(threads)), Some(pid)) = (&outcome, self.pid()) {
                let tids: Vec<u32> = threads.iter().map(|thread| thread.tid).collect();
                self.vcpus = Vcpus::new(pid, &tids);
                self.usage_ms = now_ms;
                self.vcpus.usage(now_ms);
            }
            return;
        }
        if self.refuses_state(ticket, &outcome) {
            return;
        }
        if let Ok(Reply::Status(state)) = &outcome {
            if state.running {
                self.tell_name();
            }
            return;
        }
        let Some(pending) = self.pending.take_if(|p| p.ticket == ticket) else { return };
        let mut grant = pending.grant;
        match outcome {
            Ok(_) => self.granted_pages = grant.pages,
            Err(failure) => {
                grant.pages = self.granted_pages;
                grant.reason = failure.desc;
            }
        }
        self.say(&ToGuest::Grant(grant));
        if let Some(next) = self.wanted.take() {
            self.grant(next);
        }
    }

    /// What has to be looked at again and again, four times a second.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        let waited_ms = now_ms.saturating_sub(self.started_ms);
        // A clone's console has nothing to say.
        let boots = self.is_booting() && self.spec.restore.is_none();
        if boots && is_mute(self.spec.accel, self.console.len(), waited_ms) {
            return self.emulate(now_ms);
        }
        if boots {
            self.watch_boot(now_ms);
        }
        self.expire_naming(waited_ms);
        self.connect(now_ms);
        let Some(open) = &mut self.open else { return };
        open.refill(now_ms);
        while let Some(late) = self.captures.expire(now_ms) {
            self.captured.push(late);
        }
        let settled = self.status.as_ref().is_some_and(|s| s.settled);
        let window_ms = now_ms.saturating_sub(self.usage_ms);
        if !settled && window_ms < USAGE_MS {
            return;
        }
        let Some(usage) = self.vcpus.usage(now_ms) else { return };
        if window_ms >= USAGE_MS || usage.cpu_percent >= BUSY_PERCENT {
            self.usage = Some(usage);
            self.usage_ms = now_ms;
        }
        let update_ms = self.hello.as_ref().map_or(USAGE_MS, |h| u64::from(h.update_ms));
        // The daemon's clock decides; here only the flood of messages is kept down.
        let due = now_ms.saturating_sub(self.looked_ms) >= update_ms.max(super::TICK_MS);
        if settled && due && usage.cpu_percent >= BUSY_PERCENT {
            self.looked_ms = now_ms;
            self.say(&ToGuest::Look);
        }
    }

    /// Takes a guest that hangs away from its connections, and starts it again when what it does
    /// is kept.
    fn watch_boot(&mut self, now_ms: u64) {
        if let Some(found) = self.watch.found(&self.spec) {
            if found.restart {
                self.start(now_ms);
            } else {
                self.end(found.note.clone());
            }
            self.hung = Some(found.note);
        }
        let (said_bytes, run_ns) = (self.console_end, self.vcpus.run_ns());
        if self.watch.look(Sight { now_ms, said_bytes, run_ns }) == Verdict::Hangs
            && let Some(open) = self.open.take()
        {
            self.vcpus = Vcpus::default();
            self.watch.begin(&self.spec, open, &self.console);
        }
    }

    /// Tells what happened since the last turn.
    pub(crate) fn drain(&mut self, guest: usize, events: &mut Vec<Event>) {
        if std::mem::take(&mut self.came_up) {
            events.push(Event::Up(guest));
        }
        events.extend(self.hung.take().map(|note| Event::Hung { guest, note }));
        if std::mem::take(&mut self.was_reset) {
            events.push(Event::Reset(guest));
        }
        let captured = self.captured.drain(..);
        events.extend(captured.map(|captured| Event::Captured { guest, captured }));
        if std::mem::take(&mut self.ended) {
            events.push(Event::Ended(guest));
        }
    }
}

/// Whether a guest runs on a KVM that is there and does not work, as on some nested hosts.
fn is_mute(accel: Accel, console_bytes: usize, waited_ms: u64) -> bool {
    accel == Accel::Kvm && console_bytes == 0 && waited_ms >= KVM_SILENCE_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_guest_on_kvm_that_says_nothing_is_started_again() {
        assert!(is_mute(Accel::Kvm, 0, KVM_SILENCE_MS));
        assert!(!is_mute(Accel::Kvm, 0, KVM_SILENCE_MS - 1));
        assert!(!is_mute(Accel::Kvm, 1, u64::MAX));
        assert!(!is_mute(Accel::Emulation(WhyEmulation::KvmSilent), 0, u64::MAX));
    }
}
