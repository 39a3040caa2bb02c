//! Memory that is kept for a guest that is about to start.

use counters::Bytes;

/// More open reservations than this are a mistake of the client.
pub const RESERVATIONS_MAX: usize = 64;

/// A reservation on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Which.
    pub id: u64,
    /// How much.
    pub size: Bytes,
    /// It fails if the memory is not free by then.
    pub deadline_ms: u64,
    /// Once it is held: until then, or until it is taken.
    pub held_ms: u64,
    /// Whether the memory is free and kept free.
    pub held: bool,
}

/// All open reservations, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations(pub(super) Vec<Reservation>);

impl Reservations {
    /// What is kept free.
    pub fn held(&self) -> Bytes {
        self.0.iter().filter(|r| r.held).map(|r| r.size).sum()
    }

    /// What is still to be made free.
    pub fn pending(&self) -> Bytes {
        self.0.iter().filter(|r| !r.held).map(|r| r.size).sum()
    }

    /// Holds those that fit into what is free, in their order, and drops those whose time is
    /// over. Gives the ids of those that are held since now, and of those that failed.
    pub fn settle(&mut self, mut free: Bytes, now_ms: u64) -> (Vec<u64>, Vec<u64>) {
        let (mut held, mut failed) = (Vec::new(), Vec::new());
        for one in self.0.iter_mut().filter(|r| !r.held) {
            if one.size > free {
                // The first is served first: a small one must not starve a large one.
                break;
            }
            free = free.less(one.size);
            one.held = true;
            held.push(one.id);
        }
        self.0.retain(|one| match one.held {
            true => now_ms < one.held_ms,
            false if now_ms < one.deadline_ms => true,
            false => {
                failed.push(one.id);
                false
            }
        });
        (held, failed)
    }
}
