//! The messages of a guest's daemon and their answers; and the owner of its port.
//!
//! A clone gets its identity before anyone else may speak to it:
//!
//! ```text
//!   QEMU gets the state ─► it has read it (query-status, or its event RESUME) ─►
//!   port: Identify ─► Identified ─► the daemon is welcomed and says hello as this guest;
//!   the control port is given away
//! ```

use agent::{DaemonEvent, Port};
use procfs::Chance;
use qmp::{Command, Failure, Reply, Ticket};
use reactor::PollFlags;
use wire::{Grant, PoolRequest, ToGuest};

use super::event::Event;
use super::member::Member;
use super::parking::Parking;
use super::state::State;

/// Why a guest gets all its memory back when its manager has gone.
const MANAGER_GONE: &str = "the host manager has ended, all memory is given back";

impl Member {
    pub(super) fn speak_port(&mut self, flags: PollFlags, now_ms: u64) {
        let events = self.link.turn(flags, now_ms);
        self.take_events(events, now_ms);
        self.notice_loss();
    }

    /// A port that QEMU has closed is QEMU's end.
    pub(super) fn notice_loss(&mut self) {
        if self.link.is_lost() {
            self.closed();
        }
    }

    pub(super) fn take_events(&mut self, events: Vec<DaemonEvent>, now_ms: u64) {
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
                        self.counting.add(status);
                    }
                }
                DaemonEvent::PoolRequest(request) => self.grant(request),
                DaemonEvent::File(captured) => {
                    self.events.push(Event::Captured { guest: self.place, captured });
                }
                DaemonEvent::Named(Ok(())) => self.named(),
                DaemonEvent::Named(Err(refusal)) => self.refused(&refusal),
                DaemonEvent::Alarm(in_ms) => self.suspension.alarm.was_told(in_ms, now_ms),
                DaemonEvent::Bye => self.state = State::Unmanaged,
                // A farm tells nobody a host's name.
                DaemonEvent::CameFrom(_) => {}
                // A need is for a manager of many guests; this one grants what is asked for. Tasks
                // are not asked for here, and a sample is kept by the link.
                DaemonEvent::Need(_) | DaemonEvent::Sample(..) | DaemonEvent::Tasks(_) => {}
            }
        }
    }

    /// Grants a request, one at a time: while QEMU works, only the newest one waits.
    fn grant(&mut self, request: PoolRequest) {
        let Some(request) = self.balloon.request(request) else { return };
        let bounds = self.link.agent().bounds;
        let (pages, reason) = bounds.granted(request.pages, self.config.floor);
        let grant = Grant { sequence: request.sequence, pages, reason };
        match self.ask(Command::Balloon { value_bytes: bounds.kept(pages).0 }) {
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
        let _ = self.ask(Command::Balloon { value_bytes: self.config.spec.memory_mib << 20 });
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

    pub(super) fn is_named(&self) -> bool {
        self.running.is_none() || self.link.agent().is_named()
    }

    /// Its virtual CPUs run: sends it its identity, once.
    pub(super) fn send_identity(&mut self) {
        let Some(running) = self.running.as_ref().filter(|_| self.link.agent().wants_name()) else {
            return;
        };
        match vm::identity(&self.config.spec, running.uuid) {
            Ok(identity) => {
                self.watch.had = Chance::default();
                self.link.identify(identity);
            }
            Err(error) => self.refused(&error.to_string()),
        }
    }

    /// Its daemon has taken its identity.
    pub(super) fn named(&mut self) {
        if self.managed {
            self.leave_to_manager();
        } else {
            // Its daemon has sent its hello long ago, to the template's host.
            self.link.welcome();
        }
    }

    /// Its port is the manager's from now on. A clone is up when it is itself: its console is
    /// silent about that.
    pub(super) fn leave_to_manager(&mut self) {
        // One that was parked is told the time when it runs, and lent then.
        if !self.parking().is_some_and(Parking::is_awake) || !self.is_named() {
            return;
        }
        self.link.close();
        if self.config.spec.restore.is_some() && self.state == State::Booting {
            self.is_up_without_us();
        }
    }

    pub(super) fn refused(&mut self, words: &str) {
        self.end(format!("It does not take its name: {words}"));
    }
}
