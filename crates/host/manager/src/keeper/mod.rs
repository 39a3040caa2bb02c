//! The lease. If the manager dies for any reason, its guests get their memory back.
//!
//! ```text
//!   manager: Lease ── a line a change, a beat each 2 s ──► keeper: Book ── the pipe ends, or no
//!                                                                  beat came for 15 s ──► Rescue
//!   Rescue, once a second: free memory, divided by what is missing ──► targets ──► the guests
//!   Wakes: parked guests run again ─────────────────────────────────────────────► the guests
//! ```
//!
//! The keeper is a separate process, so that it outlives the manager. Before a rescue the keeper
//! only waits. Until then it has no connection to a guest, because a QEMU monitor serves only one
//! client, the manager. The keeper's decisions are made without I/O: [`Book`] decides the time of a
//! rescue, [`Rescue`] the targets, and [`Wakes`] the guests to resume.

mod book;
mod groups;
mod lease;
mod order;
mod pools;
mod rescue;
mod run;
mod sources;
mod wakes;

pub use book::{Book, Limits, Verdict};
pub use lease::{BEAT_MS, Lease};
pub use order::{Held, LINE_MAX, Order, Place, decode, encode};
pub use rescue::{Outcome, RESCUE_MS, Rescue};
pub(crate) use run::spare_manager;
pub use run::{Ended, Options, run};
pub use wakes::Wakes;
