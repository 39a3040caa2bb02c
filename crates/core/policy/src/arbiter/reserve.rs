//! Memory reserved for a guest that is about to start.

use base::Bytes;

/// Maximum number of open reservations. Only a faulty client needs more.
pub const RESERVATIONS_MAX: usize = 64;

/// An open reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub id: u64,
    pub size: Bytes,
    /// Time by which the memory must be free.
    pub deadline_ms: u64,
    /// End of the time for which the memory is kept free, unless the reservation is used before.
    pub held_ms: u64,
    /// True if the memory is free and kept free.
    pub held: bool,
}

/// All open reservations, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations(pub(super) Vec<Reservation>);

impl Reservations {
    /// Returns the memory that is kept free.
    pub fn held(&self) -> Bytes {
        self.0.iter().filter(|r| r.held).map(|r| r.size).sum()
    }

    /// Returns the memory that must still be freed.
    pub fn pending(&self) -> Bytes {
        self.0.iter().filter(|r| !r.held).map(|r| r.size).sum()
    }

    /// Satisfies the reservations that fit into free memory, in their order, and drops expired
    /// reservations. Returns the ids of newly satisfied reservations, and the ids of failed
    /// reservations.
    pub fn settle(&mut self, mut free: Bytes, now_ms: u64) -> (Vec<u64>, Vec<u64>) {
        let (mut held, mut failed) = (Vec::new(), Vec::new());
        for one in self.0.iter_mut().filter(|r| !r.held) {
            if one.size > free {
                // Reservations are served in order, because a small reservation must not starve a
                // large one.
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
