//! The messages of a guest's daemon and their answers; and the owner of its port.

use agent::{DaemonEvent, Port};
use qmp::{Command, Failure, Reply, Ticket};
use reactor::PollFlags;
use wire::{Grant, PoolRequest, ToGuest};

use super::event::Event;
use super::grant::{decide, kept_bytes};
use super::member::Member;
use super::state::State;

/// Why a guest gets all its memory back when its manager has gone.
const MANAGER_GONE: &str = "the host manager has ended, all memory is given back";

impl Member {
    pub(super) fn speak_port(&mut self, flags: PollFlags, now_ms: u64) {
        let events = self.link.turn(flags, now_ms);
        self.take_events(events);
        self.notice_loss();
    }

    /// A port that QEMU has closed is QEMU's end.
    pub(super) fn notice_loss(&mut self) {
        if self.link.is_lost() {
            self.closed();
        }
    }

    pub(super) fn take_events(&mut self, events: Vec<DaemonEvent>) {
        for event in events {
            match event {
                DaemonEvent::Here(_) => {
                    if self.state == State::Booting {
                        self.events.push(Event::Up(self.place));
                    }
                    self.state = State::Up;
                }
                DaemonEvent::Status => {
                    if let Some(status) = self.link.agent().last_status() {
                        self.tally.add(status, self.counted.as_ref());
                        self.counted = Some(status.clone());
                    }
                }
                DaemonEvent::PoolRequest(request) => self.grant(request),
                DaemonEvent::File(captured) => {
                    self.events.push(Event::Captured { guest: self.place, captured });
                }
                DaemonEvent::Named(Ok(())) => self.named(),
                DaemonEvent::Named(Err(refusal)) => self.refused(&refusal),
                DaemonEvent::Bye => self.state = State::Unmanaged,
                // A need is for a manager of many guests; this one grants what is asked for. Tasks
                // are not asked for here, and a sample is kept by the link.
                DaemonEvent::Need(_) | DaemonEvent::Sample(..) | DaemonEvent::Tasks(_) => {}
            }
        }
    }

    /// Grants a request, one at a time: while QEMU works, only the newest one waits.
    fn grant(&mut self, request: PoolRequest) {
        let Some(request) = self.balloon.request(request) else { return };
        let grant = decide(request, self.config.spec.memory_mib, self.config.floor);
        let value_bytes = kept_bytes(self.config.spec.memory_mib, grant.pages);
        match self.ask(Command::Balloon { value_bytes }) {
            Some(ticket) => self.balloon.begin(ticket, grant),
            None => {
                let refusal = self.balloon.refuse(grant.sequence, "QEMU does not answer".into());
                self.link.send(&ToGuest::Grant(refusal));
            }
        }
    }

    /// QEMU has answered what may have been a grant.
    pub(super) fn balloon_answered(&mut self, ticket: Ticket, outcome: Result<Reply, Failure>) {
        let Some((grant, next)) = self.balloon.answered(ticket, outcome) else { return };
        self.link.send(&ToGuest::Grant(grant));
        if let Some(next) = next {
            self.grant(next);
        }
    }

    pub(super) fn capture(&mut self, file: wire::File, now_ms: u64) -> Option<u32> {
        if self.state != State::Up {
            return None;
        }
        self.link.ask_file(file, now_ms)
    }

    /// Leaves port and balloon to a host manager, where there is a way for it to have them.
    pub(super) fn yield_to_other_manager(&mut self) {
        if self.config.spec.run_dir.is_none() {
            return;
        }
        self.managed = true;
        self.leave_to_manager();
        self.balloon.yield_to_other_manager();
        self.link.forget_state();
        if matches!(self.state, State::Up | State::Unmanaged) {
            self.state = State::Managed;
        }
        self.notice_up();
    }

    /// Takes port and balloon back. Whatever the manager has done to the balloon is undone: a
    /// guest that has too much can give it back, one that has too little cannot take it.
    pub(super) fn take_back(&mut self, now_ms: u64) {
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
        self.link.send(&ToGuest::Grant(Grant { sequence: 0, pages: 0, reason }));
        self.balloon.reset();
        // A guest without a balloon has nothing to give back; the answer is nobody's.
        let _ =
            self.ask(Command::Balloon { value_bytes: kept_bytes(self.config.spec.memory_mib, 0) });
    }

    /// Connects to a port that is served and that nobody else is to have. Where somebody has
    /// it all the same, this is tried again with each tick.
    pub(super) fn connect(&mut self, now_ms: u64) {
        let Some(path) = self.config.spec.port_path().filter(|_| !self.managed) else { return };
        if self.running.is_some()
            && !self.link.is_open()
            && let Ok(port) = Port::connect(&path, now_ms)
        {
            self.link.open(port);
            self.link.welcome();
            // It may have been parked when nobody could tell it.
            self.link.clock(images::time_of_day());
        }
    }
}
