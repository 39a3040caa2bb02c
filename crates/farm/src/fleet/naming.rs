//! A clone gets its identity before anyone else may speak to it.
//!
//! ```text
//!   QEMU gets the state ─► it has read it (query-status, or its event RESUME) ─►
//!   port: Identify ─► Identified ─► the daemon is welcomed and says hello as this guest;
//!   the control port is given away
//! ```

use qmp::{Reply, Ticket};

use super::member::Member;
use super::open::RunningGuest;
use super::park::Parking;
use super::state::State;

impl Member {
    pub(super) fn is_named(&self) -> bool {
        self.running.is_none() || self.link.agent().is_named()
    }

    /// QEMU listens: sends it the state to go on from.
    pub(super) fn send_state(&mut self) {
        let Some(go_on) = self.running.as_mut().and_then(|running| running.go_on.take()) else {
            return;
        };
        for command in go_on.commands() {
            let ticket = self.ask(command);
            if let Some(running) = &mut self.running {
                running.going_on.extend(ticket);
            }
        }
    }

    /// Whether this was the answer to that and a bad one: then it is this guest's end.
    pub(super) fn refuses_state(
        &mut self,
        ticket: Ticket,
        outcome: &Result<Reply, qmp::Failure>,
    ) -> bool {
        let asked = |running: &RunningGuest| running.going_on.contains(&ticket);
        let asked = self.running.as_ref().is_some_and(asked);
        match outcome {
            Err(failure) if asked => {
                self.end(format!("QEMU does not go on from its state: {}", failure.desc));
                true
            }
            _ => false,
        }
    }

    /// Its virtual CPUs run: sends it its identity, once.
    pub(super) fn send_identity(&mut self) {
        let Some(running) = self.running.as_ref().filter(|_| self.link.agent().wants_name()) else {
            return;
        };
        match vm::identity(&self.config.spec, running.uuid) {
            Ok(identity) => self.link.identify(identity),
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
