//! Inputs of a policy pass, for replay.

use crate::fields::{PassField, PassGuestField};
use crate::identity::GuestIdentity;
use crate::row::Row;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Inputs of one pass, with the events since the previous pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassInput {
    /// Number of the pass, counted from the manager's start. A gap in the numbers means passes that
    /// were not recorded.
    pub number: u64,
    /// Time in milliseconds since 1970, as in the journal's decisions.
    pub at_ms: i64,
    /// Time on the manager's monotonic clock.
    pub now_ms: u64,
    /// Fields of the host; a value that could not be read is missing.
    pub host: Row<PassField>,
    /// Guests by the manager's ids.
    pub guests: BTreeMap<u64, PassGuest>,
    /// Events before the pass, in order.
    pub events: Vec<PassEvent>,
}

/// A guest in a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassGuest {
    /// Identity of the guest.
    pub who: Arc<GuestIdentity>,
    /// Inputs about the guest.
    pub row: Row<PassGuestField>,
}

/// An event between two passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassEvent {
    /// A guest rebooted, and its process on the host continued.
    Rebooted(u64),
    /// Memory was reserved for a guest about to start.
    Reserved {
        /// Id of the reservation.
        id: u64,
        /// Reserved memory.
        bytes: u64,
        /// Time by which the memory had to be free, on the manager's clock.
        deadline_ms: u64,
        /// Time until which the memory is kept free.
        held_ms: u64,
    },
    /// A reservation was released.
    Unreserved(u64),
}
