//! What a guest's daemon says on its port and is answered; and whose the port is.

use hypervisor::Port;
use qmp::Command;
use rustix::event::PollFlags;
use wire::{Grant, PoolKind, PoolRequest, Pressure, Sample, Status, ToGuest, ToHost, Welcome};

use super::grant::{decide, kept_bytes};
use super::member::{Member, Pending};
use super::seat::Daemon;
use super::state::State;

/// What a guest is told when its balloon is taken away because its manager has gone.
const MANAGER_GONE: &str = "the host manager has ended, all memory is given back";

impl Member {
    fn port(&mut self) -> Option<&mut Port> {
        self.open.as_mut()?.port.as_mut()
    }

    pub(super) fn welcome(&mut self) {
        let memory_pages = self.spec.memory_mib * 256;
        self.say(&ToGuest::Welcome(Welcome { memory_pages, grants: true, paces: true }));
    }

    pub(super) fn say(&mut self, message: &ToGuest) {
        if self.port().is_some_and(|port| port.say(message).is_err()) {
            self.closed();
        }
    }

    pub(crate) fn speak_port(&mut self, flags: PollFlags, now_ms: u64) {
        let Some(port) = self.port() else { return };
        let sent = port.send();
        let received = match flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            true => port.receive(),
            false => Ok(()),
        };
        while let Some(message) = self.port().and_then(Port::next) {
            self.hear(message, now_ms);
        }
        if sent.is_err() || received.is_err() {
            self.closed();
        }
    }

    fn hear(&mut self, message: ToHost, now_ms: u64) {
        if !self.is_named() {
            return self.hear_name(message);
        }
        match message {
            ToHost::Hello(hello) => {
                let reply = hello.reply;
                self.came_up |= self.state == State::Booting;
                self.state = State::Up;
                if !reply {
                    self.status = None;
                }
                self.hello = Some(hello);
                if !reply {
                    self.welcome();
                }
            }
            ToHost::Status(status) => self.take_status(status),
            ToHost::PoolRequest(request) => self.grant(request),
            ToHost::Chunk(chunk) => self.captured.extend(self.captures.take(&chunk)),
            ToHost::Bye => self.state = State::Unmanaged,
            // A need is for a manager of many guests; this one grants what is asked for.
            ToHost::Need(pressure) => {
                self.looked_ms = now_ms;
                self.needs += u64::from(pressure == Pressure::Memory);
            }
            ToHost::Memory(memory) => self.memory = Some(memory),
            // Nobody asks for these here, and it has its name.
            ToHost::Processes(_) | ToHost::System(_) | ToHost::Identified(_) => {}
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
        // A daemon that starts anew counts from zero again, its statuses too.
        let before = match status.sequence > self.tallied.sequence {
            true => std::mem::take(&mut self.tallied),
            false => Status::default(),
        };
        let grown = |sum: &mut u32, now: u32, before: u32| {
            *sum = sum.saturating_add(now.saturating_sub(before));
        };
        grown(&mut tally.plugs, status.plugs, before.plugs);
        grown(&mut tally.unplugs, status.unplugs, before.unplugs);
        grown(&mut tally.grows, status.grows, before.grows);
        grown(&mut tally.shrinks, status.shrinks, before.shrinks);
        self.tallied = status.clone();
        self.status = Some(status);
    }

    /// Grants a request, one at a time: while QEMU works, only the newest one waits.
    pub(super) fn grant(&mut self, request: PoolRequest) {
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
                self.say(&ToGuest::Grant(Grant { sequence, pages, reason }));
            }
        }
    }

    pub(crate) fn capture(&mut self, file: wire::File, now_ms: u64) -> Option<u32> {
        if self.state != State::Up {
            return None;
        }
        let sequence = self.captures.begin(file, now_ms)?;
        self.say(&ToGuest::Capture(wire::Capture { sequence, file }));
        Some(sequence)
    }

    /// Asks the daemon how the guest's memory is; the answer replaces [`Member::memory`].
    pub(crate) fn sample(&mut self, sequence: u32) {
        self.say(&ToGuest::Sample(Sample { sequence }));
    }

    /// How it gives up memory, as its daemon said.
    pub fn pool_kind(&self) -> PoolKind {
        self.hello.as_ref().map_or(PoolKind::None, |h| h.pool)
    }

    /// Leaves port and balloon to a host manager, where there is a way for it to have them.
    pub(crate) fn let_go(&mut self) {
        if self.spec.run_dir.is_none() {
            return;
        }
        self.managed = true;
        self.leave_to_manager();
        // What QEMU still answers is nobody's any more.
        (self.pending, self.wanted) = (None, None);
        (self.status, self.memory) = (None, None);
        if matches!(self.state, State::Up | State::Unmanaged) {
            self.state = State::Managed;
        }
        self.notice_up();
    }

    /// While the port is another's, and where no daemon speaks on it, a guest is up when its
    /// console says so.
    pub(super) fn notice_up(&mut self) {
        let is_silent = self.managed || self.daemon == Daemon::Missing;
        if is_silent && self.state == State::Booting {
            let marker = crate::qemu::up_marker(&self.spec.name);
            if self.console().windows(marker.len()).any(|part| part == marker.as_bytes()) {
                self.state = if self.managed { State::Managed } else { State::Unmanaged };
                self.came_up = true;
            }
        }
    }

    /// Takes port and balloon back. Whatever the manager has done to the balloon is undone: a
    /// guest that has too much can give it back, one that has too little cannot take it.
    pub(crate) fn take_back(&mut self, now_ms: u64) {
        if !std::mem::take(&mut self.managed) {
            return;
        }
        if self.state == State::Managed {
            // Until its daemon answers, as that of a guest that has none never will.
            self.state = State::Unmanaged;
        }
        self.connect(now_ms);
        if !self.is_named() {
            // No manager has had it.
            return;
        }
        // Before it is done, or the daemon would wonder who has changed its pool.
        let reason = MANAGER_GONE.to_owned();
        self.say(&ToGuest::Grant(Grant { sequence: 0, pages: 0, reason }));
        self.granted_pages = 0;
        // A guest without a balloon has nothing to give back; the answer is nobody's.
        let _ = self.ask(Command::Balloon { value_bytes: kept_bytes(self.spec.memory_mib, 0) });
    }

    /// Connects to a port that is served and that nobody else is to have. Where somebody has
    /// it all the same, this is tried again with each tick.
    pub(super) fn connect(&mut self, now_ms: u64) {
        let Some(path) = self.spec.port_path().filter(|_| !self.managed) else { return };
        let Some(open) = self.open.as_mut().filter(|open| open.port.is_none()) else { return };
        if let Ok(port) = Port::connect(&path, now_ms) {
            open.port = Some(port);
            self.welcome();
        }
    }
}
