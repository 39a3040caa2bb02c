//! A clone is told who it is before anyone else may speak to it.
//!
//! ```text
//!   QEMU is told the state ─► it has read it (query-status, or its event RESUME) ─►
//!   port: Identify ─► Identified ─► the daemon is welcomed and says hello as this guest;
//!   the control port is given away
//! ```

use qmp::{Command, Reply, Ticket};
use wire::{Identified, ToGuest, ToHost};

use super::member::Member;
use super::state::State;

/// A guest that has not taken its name by then is not this guest, and must not stay.
const PATIENCE_MS: u64 = 60_000;

/// How far a clone is on its way to be itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// It does not run yet.
    Due,
    /// It was told who it is, and has not said that it is.
    Told,
    /// It is itself, as is every guest that boots.
    Done,
}

impl Member {
    fn naming(&self) -> Naming {
        self.open.as_ref().map_or(Naming::Done, |open| open.naming)
    }

    pub(super) fn is_named(&self) -> bool {
        self.naming() == Naming::Done
    }

    /// QEMU listens: tells it what state to go on from.
    pub(super) fn tell_state(&mut self) {
        let Some(go_on) = self.open.as_mut().and_then(|open| open.go_on.take()) else { return };
        for command in go_on.commands() {
            let ticket = self.ask(command);
            if let Some(open) = &mut self.open {
                open.going_on.extend(ticket);
            }
        }
    }

    /// Whether this was the answer to that and a bad one: then it is this guest's end.
    pub(super) fn refuses_state(
        &mut self,
        ticket: Ticket,
        outcome: &Result<Reply, qmp::Failure>,
    ) -> bool {
        let asked = self.open.as_ref().is_some_and(|open| open.going_on.contains(&ticket));
        match outcome {
            Err(failure) if asked => {
                self.kill();
                self.end(format!("QEMU does not go on from its state: {}", failure.desc));
                true
            }
            _ => false,
        }
    }

    /// A QEMU that reads a state answers when it is done, and may have told so before we listened.
    pub(super) fn ask_whether_it_runs(&mut self) {
        if !self.is_named() {
            self.ask(Command::QueryStatus);
        }
    }

    /// Its virtual CPUs run: tells it who it is, once.
    pub(super) fn tell_name(&mut self) {
        let Some(open) = self.open.as_mut().filter(|open| open.naming == Naming::Due) else {
            return;
        };
        open.naming = Naming::Told;
        match crate::identity::identity(&self.spec, open.uuid) {
            Ok(identity) => self.say(&ToGuest::Identify(identity)),
            Err(error) => self.refused(&error.to_string()),
        }
    }

    /// Takes its answer. What else it says is still said by the template's guest.
    pub(super) fn hear_name(&mut self, message: ToHost) {
        let ToHost::Identified(Identified { refusal }) = message else { return };
        match self.naming() {
            Naming::Told if refusal.is_empty() => self.named(),
            Naming::Told => self.refused(&refusal),
            // It cannot know yet who it is to be.
            Naming::Due | Naming::Done => {}
        }
    }

    fn named(&mut self) {
        if let Some(open) = &mut self.open {
            open.naming = Naming::Done;
        }
        if self.managed {
            self.leave_to_manager();
        } else {
            // Its daemon has long said hello, to the template's host.
            self.welcome();
        }
    }

    /// Its port is the manager's from now on. A clone is up when it is itself: its console is
    /// silent about that.
    pub(super) fn leave_to_manager(&mut self) {
        let is_clone = self.spec.restore.is_some();
        let Some(open) = self.open.as_mut().filter(|open| open.naming == Naming::Done) else {
            return;
        };
        open.port = None;
        if is_clone && self.state == State::Booting {
            (self.state, self.came_up) = (State::Managed, true);
        }
    }

    fn refused(&mut self, words: &str) {
        self.kill();
        self.end(format!("It does not take its name: {words}"));
    }

    /// Gives up a guest that does not answer.
    pub(super) fn expire_naming(&mut self, waited_ms: u64) {
        if waited_ms > PATIENCE_MS && !self.is_named() {
            self.refused("its daemon does not answer");
        }
    }
}
