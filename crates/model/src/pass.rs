//! What a pass of the policy knew, so that it can be decided again.

use crate::fields::{PassField, PassGuestField};
use crate::identity::GuestIdentity;
use crate::row::Row;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The input of one pass, and what has happened since the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassInput {
    /// Passes are counted from the manager's start: one that is missing was not recorded.
    pub number: u64,
    /// When, in milliseconds since 1970: the time of its decisions in the journal.
    pub at_ms: i64,
    /// When, on the manager's clock, which never jumps.
    pub now_ms: u64,
    /// The host; what was read of it is missing where it could not be.
    pub host: Row<PassField>,
    /// The guests, by the manager's numbers of them.
    pub guests: BTreeMap<u64, PassGuest>,
    /// What happened before it, in its order.
    pub events: Vec<PassEvent>,
}

/// A guest in a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassGuest {
    /// Who it is.
    pub who: Arc<GuestIdentity>,
    /// What was known of it.
    pub row: Row<PassGuestField>,
}

/// What a policy was told between two passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassEvent {
    /// A guest started again in its process.
    Rebooted(u64),
    /// Memory was asked for, for a guest that was about to start.
    Reserved {
        /// The number of the reservation.
        id: u64,
        /// How much.
        bytes: u64,
        /// Until when it had to be free, on the manager's clock.
        deadline_ms: u64,
        /// Until when it is held.
        held_ms: u64,
    },
    /// A reservation was let go.
    Unreserved(u64),
}
