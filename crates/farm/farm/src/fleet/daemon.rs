//! Handling of messages from a guest's daemon, and the hand-over of the daemon's port.
//!
//! A clone gets its identity before any other communication:
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
use vm::images;
use wire::{Grant, PoolRequest, ToGuest};

use super::event::Event;
use super::member::Member;
use super::parking::Parking;
use super::state::{Holder, State};

/// Reason for returning all memory to a guest when its manager has gone.
const MANAGER_GONE: &str = "the host manager has ended, so all memory is given back";

impl Member {
    pub(super) fn speak_port(&mut self, flags: PollFlags, now_ms: u64) {
        let events = self.link.turn(flags, now_ms);
        self.take_events(events, now_ms);
        self.notice_loss();
    }

    /// Handles the loss of the daemon's port. QEMU closes the port only when it ends.
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
                DaemonEvent::Files(captured) => {
                    self.events.push(Event::Captured { guest: self.place, captured });
                }
                DaemonEvent::Named(Ok(())) => self.named(),
                DaemonEvent::Named(Err(refusal)) => self.refused(&refusal),
                DaemonEvent::Alarm(in_ms) => self.suspension.alarm.was_told(in_ms, now_ms),
                DaemonEvent::Bye => self.state = State::Unmanaged,
                // A farm does not use host names.
                DaemonEvent::CameFrom(_) => {}
                // The event `Need` only matters to a host manager, because a farm grants each
                // request. A farm never requests task lists, and the link stores the samples.
                DaemonEvent::Need(_) | DaemonEvent::Sample(..) | DaemonEvent::Tasks(_) => {}
            }
        }
    }

    /// Asks QEMU to resize the balloon as requested. While QEMU still applies an earlier request,
    /// only the newest request is kept.
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

    /// Handles QEMU's response to a balloon command. Responses to other commands are ignored.
    pub(super) fn balloon_answered(&mut self, ticket: Ticket, outcome: Result<Reply, Failure>) {
        let Some((grant, next)) = self.balloon.answered(ticket, outcome) else { return };
        self.link.send(&ToGuest::Grant(grant));
        if let Some(next) = next {
            self.grant(next);
        }
    }

    /// Requests the guest's next timer from its daemon, or from the manager that has the daemon's
    /// port. Returns false if the farm has the port and no daemon is connected.
    pub(super) fn ask_alarm(&mut self) -> bool {
        if self.holder == Holder::Farm {
            return self.link.ask_alarm();
        }
        self.events.push(Event::WantsTimer(self.place));
        true
    }

    /// Hands port and balloon to a host manager. A guest without a directory for its sockets is out
    /// of the manager's reach and stays with the farm.
    pub(super) fn yield_to_other_manager(&mut self) {
        if self.config.spec.run_dir.is_none() {
            return;
        }
        self.holder = Holder::Manager;
        self.leave_to_manager();
        self.balloon.yield_to_other_manager();
        self.link.forget_state();
        self.counting.forget_state();
        if matches!(self.state, State::Up | State::Unmanaged) {
            self.state = State::Managed;
        }
        self.notice_up();
    }

    /// Takes port and balloon back, and undoes the manager's changes of the balloon. A guest with
    /// too much memory can return some, but a guest with too little memory cannot take more.
    pub(super) fn take_back(&mut self, now_ms: u64) {
        if self.holder == Holder::Farm {
            return;
        }
        if self.is_away() || !self.parking().is_none_or(Parking::is_awake) {
            self.holder = Holder::FarmWhenWoken;
            return;
        }
        self.holder = Holder::Farm;
        if self.state == State::Managed {
            // The guest is unmanaged until its daemon responds. A guest without a daemon stays
            // unmanaged.
            self.state = State::Unmanaged;
        }
        if self.link.is_open() {
            // The port stayed open, so the guest was never handed over. The guest's daemon responds
            // to a Welcome with a Hello.
            self.link.welcome();
        }
        self.connect(now_ms);
        if !self.is_named() {
            // A clone without its name was never handed to a manager.
            return;
        }
        // The grant must be sent first. Otherwise the daemon would see a change of its pool without
        // a reason.
        let reason = MANAGER_GONE.to_owned();
        self.link.send(&ToGuest::Grant(Grant { sequence: 0, pages: 0, reason }));
        self.balloon.reset();
        // A guest without a balloon has nothing to return. The response is ignored.
        let _ = self.ask(Command::Balloon { value_bytes: self.config.spec.memory_mib << 20 });
    }

    /// Connects to the daemon's port, if QEMU listens there and the port is not reserved for a
    /// manager. If another process uses the port, each tick tries again.
    pub(super) fn connect(&mut self, now_ms: u64) {
        let Some(path) = self.config.spec.port_path().filter(|_| self.holder == Holder::Farm)
        else {
            return;
        };
        if self.running.is_some()
            && !self.link.is_open()
            && let Ok(port) = Port::connect(&path, now_ms)
        {
            self.link.open(port);
            self.link.welcome();
            // The guest may have been parked while no manager could set its clock.
            self.link.clock(images::time_of_day());
        }
    }

    pub(super) fn is_named(&self) -> bool {
        self.running.is_none() || self.link.agent().is_named()
    }

    /// Sends the guest its identity once its vCPUs run. The identity is sent only once.
    pub(super) fn send_identity(&mut self) {
        let Some(running) = self.running.as_ref().filter(|_| self.link.agent().wants_name()) else {
            return;
        };
        match vm::identity(&self.config.spec, running.uuid) {
            Ok(identity) => {
                self.watch.had = Chance::default();
                self.link.identify(identity);
            }
            Err(error) => self.refused(&base::chain(&error)),
        }
    }

    /// Records that the daemon has accepted its identity.
    pub(super) fn named(&mut self) {
        if self.holder == Holder::Manager {
            self.leave_to_manager();
        } else {
            // The daemon sent its hello to the template's host, so it must say hello again as this
            // guest.
            self.link.welcome();
        }
    }

    /// Hands the port to the manager. A clone counts as up once it has its identity, because its
    /// console does not show the end of a boot.
    pub(super) fn leave_to_manager(&mut self) {
        // A parked guest is handed over once it runs again and its clock is set.
        if !self.parking().is_some_and(Parking::is_awake) || !self.is_named() {
            return;
        }
        self.link.close();
        if self.config.spec.restore.is_some() && self.state == State::Booting {
            self.is_up_without_us();
        }
    }

    pub(super) fn refused(&mut self, words: &str) {
        self.end(format!("The clone does not adopt its name: {words}"));
    }
}
