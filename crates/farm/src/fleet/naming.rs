//! A clone is told who it is before anyone else may speak to it.
//!
//! ```text
//!   QEMU has read the state (query-status, or its event RESUME) ─► ctl: the identity ─► done ─►
//!   the daemon is welcomed and says hello as this guest; the control port is given away
//! ```

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use qmp::Command;

use super::member::Member;
use super::seat::Daemon;
use super::state::State;
use crate::Identity;

/// A guest that has not taken its name by then is not this guest, and must not stay.
const PATIENCE_MS: u64 = 60_000;

/// What the guest says when all of it was taken, as [`crate::Ctl`] reads it.
const TAKEN: &[u8] = b"\x01done 0\n";

/// More than a guest has to say to that; what is longer is no answer.
const ANSWER_BYTES_MAX: usize = 4096;

/// A name on its way.
#[derive(Debug)]
pub(crate) struct Naming {
    identity: Identity,
    is_sent: bool,
    answer: Vec<u8>,
}

impl Naming {
    pub(super) fn new(identity: Identity) -> Naming {
        Naming { identity, is_sent: false, answer: Vec::new() }
    }
}

impl Member {
    fn naming(&mut self) -> Option<(&mut Naming, &mut UnixStream)> {
        let open = self.open.as_mut()?;
        Some((open.naming.as_mut()?, open.ctl.as_mut()?))
    }

    /// A QEMU that reads a state answers when it is done, and may have told so before we listened.
    pub(super) fn ask_whether_it_runs(&mut self) {
        if self.naming().is_some() {
            self.ask(Command::QueryStatus);
        }
    }

    /// Its virtual CPUs run: tells it who it is, once.
    pub(super) fn tell_name(&mut self) {
        let Some((naming, ctl)) = self.naming().filter(|(naming, _)| !naming.is_sent) else {
            return;
        };
        naming.is_sent = true;
        let line = naming.identity.command() + "\n";
        // Nothing else was written there, and a socket has room for this.
        if ctl.set_nonblocking(true).and_then(|()| ctl.write_all(line.as_bytes())).is_err() {
            self.closed();
        }
    }

    /// Takes what it answers.
    pub(crate) fn hear_name(&mut self) {
        let Some((naming, ctl)) = self.naming() else { return };
        let mut buffer = [0; 512];
        match ctl.read(&mut buffer) {
            Ok(0) => return self.closed(),
            Ok(count) => naming.answer.extend_from_slice(&buffer[..count]),
            Err(error) if super::member::is_passing(&error) => return,
            Err(_) => return self.closed(),
        }
        if naming.answer.ends_with(TAKEN) {
            self.named();
        } else if naming.answer.contains(&TAKEN[0]) && naming.answer.ends_with(b"\n")
            || naming.answer.len() > ANSWER_BYTES_MAX
        {
            let words = String::from_utf8_lossy(&naming.answer).replace(['\u{1}', '\n'], " ");
            self.refused(words.trim());
        }
    }

    fn named(&mut self) {
        let Some(open) = &mut self.open else { return };
        open.naming = None;
        if open.ctl.as_ref().is_some_and(|ctl| ctl.set_nonblocking(false).is_err()) {
            return self.closed();
        }
        if self.state == State::Booting && self.managed {
            (self.state, self.came_up) = (State::Managed, true);
        } else if self.state == State::Booting && self.daemon == Daemon::Missing {
            (self.state, self.came_up) = (State::Unmanaged, true);
        } else {
            // Its daemon has long said hello, to the template's host.
            self.welcome();
        }
    }

    fn refused(&mut self, words: &str) {
        self.kill();
        self.end(format!("It does not take its name: {words}"));
    }

    /// Gives up a guest that does not answer.
    pub(super) fn expire_naming(&mut self, waited_ms: u64) {
        if waited_ms > PATIENCE_MS && self.naming().is_some() {
            self.refused("it does not answer");
        }
    }
}
