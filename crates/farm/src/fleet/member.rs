//! One guest of a fleet: its connections, what it said, and what it was granted.

use std::io::Read;
use std::os::unix::net::UnixStream;

use qmp::{Command, Incoming, Reply, Ticket};
use rustix::event::PollFlags;
use wire::{Grant, Hello, Message, PoolKind, PoolRequest, Status, Welcome};

use super::Event;
use super::budget::Budget;
use super::capture::{Captured, Captures};
use super::grant::{Floor, decide, kept_bytes};
use super::open::{CONSOLE_A_SECOND, CONSOLE_BURST, CONSOLE_READ, Open};
use super::port::{Port, is_passing};
use super::state::{State, Tally};
use super::vcpu::{Usage, Vcpus};
use crate::qemu::DAEMON_PORT;
use crate::{Accel, CONSOLE_BYTES_MAX, GuestSpec, WhyEmulation};

/// More of one CPU than this is a load and not a kernel that turns over in its sleep.
const BUSY_PERCENT: f64 = 10.0;
/// A kernel on a KVM that works has long said something by then, if only that it is up.
const KVM_SILENCE_MS: u64 = 20_000;
/// How often the usage that people see is taken.
const USAGE_MS: u64 = 1_000;

/// A balloon command that QEMU has not answered yet.
#[derive(Debug)]
struct Pending {
    ticket: Ticket,
    grant: Grant,
}

/// A guest.
#[derive(Debug)]
pub struct Member {
    spec: GuestSpec,
    floor: Floor,
    state: State,
    open: Option<Open>,
    hello: Option<Hello>,
    status: Option<Status>,
    tally: Tally,
    console: Vec<u8>,
    vcpus: Vcpus,
    vcpus_asked: Option<Ticket>,
    usage: Option<Usage>,
    usage_ms: u64,
    looked_ms: u64,
    pending: Option<Pending>,
    /// The newest request, while QEMU is busy with an older one.
    wanted: Option<PoolRequest>,
    granted_pages: u64,
    captures: Captures,
    captured: Vec<Captured>,
    started_ms: u64,
    came_up: bool,
    ended: bool,
}

impl Member {
    pub(crate) fn new(spec: GuestSpec, floor: Floor) -> Member {
        Member {
            spec,
            floor,
            state: State::Waiting,
            open: None,
            hello: None,
            status: None,
            tally: Tally::default(),
            console: Vec::new(),
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
            came_up: false,
            ended: false,
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

    /// Its control port, for a test to give commands through; only once.
    pub fn take_ctl(&mut self) -> Option<UnixStream> {
        self.open.as_mut()?.ctl.take()
    }

    /// What its daemon said of itself.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref()
    }

    /// What its daemon said last.
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref()
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
        self.open
            .as_ref()
            .map_or((wire::Dropped::default(), 0), |open| (open.port.dropped(), open.port.floods))
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
            let ready = || -> std::io::Result<Open> {
                guest.console.set_nonblocking(true)?;
                guest.qmp.set_nonblocking(true)?;
                let port = Port::new(guest.port, now_ms)?;
                let (process, console, qmp) = (guest.process, guest.console, guest.qmp);
                let (client, ctl) = (qmp::Client::new(), guest.ctl);
                let console_budget = Budget::new(CONSOLE_A_SECOND, CONSOLE_BURST, now_ms);
                Ok(Open { process, console, qmp, port, client, ctl, console_budget })
            };
            ready().map_err(|e| e.to_string())
        });
        match started {
            Ok(open) => self.open = Some(open),
            Err(reason) => self.end(reason),
        }
    }

    /// Starts it again without KVM. The old QEMU ends with its connections.
    fn emulate(&mut self, now_ms: u64) {
        self.open = None;
        self.vcpus = Vcpus::default();
        self.spec.accel = Accel::Emulation(WhyEmulation::KvmSilent);
        self.start(now_ms);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(open) = &mut self.open {
            // Its end is seen on its connections.
            let _ = open.process.kill();
        }
    }

    fn end(&mut self, reason: String) {
        self.open = None;
        self.vcpus = Vcpus::default();
        self.usage = None;
        self.state = State::Ended(reason);
        self.ended = true;
    }

    /// A connection is closed: QEMU has ended, or is about to.
    fn closed(&mut self) {
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
                let extra = self.console.len().saturating_sub(CONSOLE_BYTES_MAX);
                self.console.drain(..extra);
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
                Ok(Incoming::Ready(_)) => self.vcpus_asked = self.ask(Command::QueryCpusFast),
                Ok(Incoming::Reply { ticket, outcome }) => self.answered(ticket, outcome, now_ms),
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

    fn ask(&mut self, command: Command) -> Option<Ticket> {
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
                self.vcpus = Vcpus::new(pid, threads);
                self.usage_ms = now_ms;
                self.vcpus.usage(now_ms);
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
        self.say(&Message::Grant(grant));
        if let Some(next) = self.wanted.take() {
            self.grant(next);
        }
    }

    fn say(&mut self, message: &Message) {
        if self.open.as_mut().is_some_and(|open| open.port.say(message).is_err()) {
            self.closed();
        }
    }

    pub(crate) fn speak_port(&mut self, flags: PollFlags, now_ms: u64) {
        let Some(open) = &mut self.open else { return };
        let sent = open.port.send();
        let received = match flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            true => open.port.receive(),
            false => Ok(()),
        };
        while let Some(message) = self.open.as_mut().and_then(|open| open.port.next()) {
            self.hear(message, now_ms);
        }
        if sent.is_err() || received.is_err() {
            self.closed();
        }
    }

    fn hear(&mut self, message: Message, now_ms: u64) {
        match message {
            Message::Hello(hello) => {
                let reply = hello.reply;
                self.came_up |= self.state == State::Booting;
                self.state = State::Up;
                // A daemon that starts anew counts from zero again.
                if !reply {
                    self.status = None;
                }
                self.hello = Some(hello);
                if !reply {
                    let memory_pages = self.spec.memory_mib * 256;
                    let welcome = Welcome { memory_pages, grants: true, paces: true };
                    self.say(&Message::Welcome(welcome));
                }
            }
            Message::Status(status) => self.take_status(status),
            Message::PoolRequest(request) => self.grant(request),
            Message::Chunk(chunk) => self.captured.extend(self.captures.take(&chunk)),
            Message::Bye => self.state = State::Unmanaged,
            // A need is for a manager of many guests; this one grants what is asked for.
            Message::Need(_) => self.looked_ms = now_ms,
            // The rest is said by hosts only.
            _ => {}
        }
    }

    /// Keeps what a daemon says, within what its guest can be.
    fn take_status(&mut self, mut status: Status) {
        let memory_pages = self.spec.memory_mib * 256;
        status.cpus_present = status.cpus_present.min(self.spec.cpus);
        status.cpus_online = status.cpus_online.clamp(1, self.spec.cpus);
        status.pool_pages = status.pool_pages.min(memory_pages);
        let online = status.cpus_online;
        let tally = &mut self.tally;
        tally.cpus_online = Some(match tally.cpus_online {
            None => (online, online),
            Some((min, max)) => (min.min(online), max.max(online)),
        });
        tally.pool_pages_max = tally.pool_pages_max.max(status.pool_pages);
        let before = self.status.take().unwrap_or_default();
        let grown = |sum: &mut u32, now: u32, before: u32| {
            *sum = sum.saturating_add(now.saturating_sub(before));
        };
        grown(&mut tally.plugs, status.plugs, before.plugs);
        grown(&mut tally.unplugs, status.unplugs, before.unplugs);
        grown(&mut tally.grows, status.grows, before.grows);
        grown(&mut tally.shrinks, status.shrinks, before.shrinks);
        self.status = Some(status);
    }

    /// Grants a request, one at a time: while QEMU works, only the newest one waits.
    fn grant(&mut self, request: PoolRequest) {
        if self.pending.is_some() {
            self.wanted = Some(request);
            return;
        }
        let grant = decide(request, self.spec.memory_mib, self.floor);
        let value_bytes = kept_bytes(self.spec.memory_mib, grant.pages);
        match self.ask(Command::Balloon { value_bytes }) {
            Some(ticket) => self.pending = Some(Pending { ticket, grant }),
            None => {
                let (sequence, pages) = (grant.sequence, self.granted_pages);
                let reason = "QEMU does not answer".to_owned();
                self.say(&Message::Grant(Grant { sequence, pages, reason }));
            }
        }
    }

    pub(crate) fn capture(&mut self, file: wire::File, now_ms: u64) -> Option<u32> {
        if self.state != State::Up {
            return None;
        }
        let sequence = self.captures.begin(file, now_ms)?;
        self.say(&Message::Capture(wire::Capture { sequence, file }));
        Some(sequence)
    }

    /// What has to be looked at again and again, four times a second.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        let waited_ms = now_ms.saturating_sub(self.started_ms);
        if self.is_booting() && is_mute(self.spec.accel, self.console.len(), waited_ms) {
            return self.emulate(now_ms);
        }
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
            self.say(&Message::Look);
        }
    }

    /// Tells what happened since the last turn.
    pub(crate) fn drain(&mut self, guest: usize, events: &mut Vec<Event>) {
        if std::mem::take(&mut self.came_up) {
            events.push(Event::Up(guest));
        }
        let captured = self.captured.drain(..);
        events.extend(captured.map(|captured| Event::Captured { guest, captured }));
        if std::mem::take(&mut self.ended) {
            events.push(Event::Ended(guest));
        }
    }

    /// How it gives up memory, as its daemon said.
    pub fn pool_kind(&self) -> PoolKind {
        self.hello.as_ref().map_or(PoolKind::None, |h| h.pool)
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
