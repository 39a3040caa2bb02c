//! State shared by the relay thread and the owner of a guest. A *door* is the guest's set of
//! forwarded ports. While the door is open, connections are relayed to QEMU. While it is closed,
//! clients wait. A *knock* notifies the thread of a change.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use vm::Clock;

use super::far::Far;
use crate::news::Teller;

/// The common clock of all threads.
pub(super) static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::new);

/// Notifies the thread that a door has changed.
#[derive(Debug)]
pub(super) struct Knock(pub(super) Teller);

impl Knock {
    pub(super) fn knock(&self) {
        self.0.tell();
    }

    pub(super) fn now_ms(&self) -> u64 {
        CLOCK.ms()
    }
}

#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// The QEMU behind the door, while the door is open.
    pub(super) far: Option<Far>,
    /// True if a client waits, and no client was let in since the arrival of this client.
    pub(super) is_wanted: bool,
    /// Clients with relayed connections, by the numbers that the relay thread assigns.
    pub(super) inside: BTreeMap<u64, Visitor>,
    pub(super) is_gone: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Visitor {
    /// Arrival time of the client, by the common clock.
    pub(super) came_ms: u64,
    /// True if any byte was relayed, in either direction.
    pub(super) has_spoken: bool,
}

impl Gate {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owner's end of a door. Dropping this end closes the door's connections and ports.
#[derive(Debug)]
pub(crate) struct Door {
    gate: Arc<Gate>,
    knock: Arc<Knock>,
}

impl Door {
    pub(super) fn new(gate: Arc<Gate>, knock: Arc<Knock>) -> Door {
        Door { gate, knock }
    }

    /// Opens the door to a QEMU that listens.
    pub(crate) fn open(&self, far: Far) {
        let mut state = self.gate.lock();
        (state.far, state.is_wanted) = (Some(far), false);
        drop(state);
        self.knock.knock();
    }

    /// Closes the door, unless that would interrupt clients. A client would be interrupted if data
    /// was relayed for it, or if it arrived less than `silent_ms` ago. The error is the number of
    /// such clients.
    pub(crate) fn shut(&self, silent_ms: u64) -> Result<(), usize> {
        let now_ms = self.knock.now_ms();
        let mut state = self.gate.lock();
        let is_busy =
            |one: &&Visitor| one.has_spoken || now_ms.saturating_sub(one.came_ms) < silent_ms;
        match state.inside.values().filter(is_busy).count() {
            0 => {
                state.far = None;
                state.inside.clear();
                drop(state);
                self.knock.knock();
                Ok(())
            }
            count => Err(count),
        }
    }

    /// Closes the door at once, because its QEMU has ended or is about to end. Connected clients
    /// still get the data that was already read from QEMU.
    pub(crate) fn slam(&self) {
        self.gate.lock().far = None;
        self.knock.knock();
    }

    /// Returns true if clients are inside, and all of them have been silent for this long.
    pub(crate) fn is_silent(&self, silent_ms: u64) -> bool {
        let now_ms = self.knock.now_ms();
        let state = self.gate.lock();
        let mut inside = state.inside.values();
        !state.inside.is_empty()
            && inside.all(|one| !one.has_spoken && now_ms.saturating_sub(one.came_ms) >= silent_ms)
    }

    /// Returns true if a client waits at a closed door.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.gate.lock();
        state.far.is_none() && state.is_wanted
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.gate.lock().is_gone = true;
        self.knock.knock();
    }
}
