//! The lease: if the manager dies, however it dies, its guests have their memory back.
//!
//! ```text
//!   manager: Lease ── a line a change, a beat each 2 s ──► keeper: Book ── the pipe ends, or no
//!                                                                  beat came for 15 s ──► Rescue
//!   Rescue, once a second: free memory, divided by what is missing ──► targets ──► the guests
//!   Wakes: who is parked runs again ────────────────────────────────────────────► the guests
//! ```
//!
//! The keeper is a process of its own, so that it lives when the manager does not. It does nothing
//! but wait, and holds no connection to any guest before it is needed: QEMU's monitors serve one
//! client, and that is the manager. Its decisions are pure: [`Book`] decides when, [`Rescue`]
//! what, and [`Wakes`] who runs again.

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
