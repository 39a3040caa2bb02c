//! The state that the thread and the owner of a guest share: whether its door is open, the clients
//! inside, and the knock by which the thread learns of a change.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use vm::Clock;

use super::far::Far;
use crate::news::Teller;

/// One time for all threads.
pub(super) static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::new);

/// Tells the thread that a door has changed.
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

/// A guest's door.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// The QEMU behind it, while it is open.
    pub(super) far: Option<Far>,
    /// Somebody waits, and nobody was let in since.
    pub(super) is_wanted: bool,
    /// Those whose bytes are passed on, by the thread's numbers.
    pub(super) inside: BTreeMap<u64, Visitor>,
    /// The owner has gone.
    pub(super) is_gone: bool,
}

/// One client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visitor {
    /// When it came, by the thread's clock.
    pub(super) came_ms: u64,
    /// Whether anything was passed on for it, one way or the other.
    pub(super) has_spoken: bool,
}

impl Gate {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owner's end of a door. Dropping it ends its connections, and nobody listens any more.
#[derive(Debug)]
pub(crate) struct Door {
    gate: Arc<Gate>,
    knock: Arc<Knock>,
}

impl Door {
    pub(super) fn new(gate: Arc<Gate>, knock: Arc<Knock>) -> Door {
        Door { gate, knock }
    }

    /// Lets clients in to a QEMU that listens.
    pub(crate) fn open(&self, far: Far) {
        let mut state = self.gate.lock();
        (state.far, state.is_wanted) = (Some(far), false);
        drop(state);
        self.knock.knock();
    }

    /// Lets nobody in any more, unless clients are inside that cannot be left alone: those who have
    /// spoken, or have come later than so many milliseconds ago. The error is how many.
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

    /// Shuts it at once: its QEMU is gone, or about to go. Who is inside still gets what it had
    /// said.
    pub(crate) fn slam(&self) {
        self.gate.lock().far = None;
        self.knock.knock();
    }

    /// Whether clients are inside, and none of them has said anything for so long.
    pub(crate) fn is_silent(&self, silent_ms: u64) -> bool {
        let now_ms = self.knock.now_ms();
        let state = self.gate.lock();
        let mut inside = state.inside.values();
        !state.inside.is_empty()
            && inside.all(|one| !one.has_spoken && now_ms.saturating_sub(one.came_ms) >= silent_ms)
    }

    /// Whether somebody waits at a door that is shut.
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
