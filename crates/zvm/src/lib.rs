//! What z/VM's monitor and the hypervisor's counters say, as the fields that are recorded.
//!
//! ```text
//!   zmon::frame::Found ─► Monitor: what is known of each user ─► a Moment at each interval's end
//!   diag_2fc ───────────► Hypervisor ─► a Moment
//!   diag_204 ───────────► Hypervisor ─► a Moment
//!   a user, as it was counted ─► CountedUser ─► a Row
//!   recorded intervals ─► Exporter ─► records, for what reads z/VM's monitor
//! ```
//!
//! A user is a guest. What z/VM does not tell is missing, and nothing is made up in its place;
//! what is concluded says so where it is done.

#![forbid(unsafe_code)]

mod export;
mod growth;
mod guest;
mod hypervisor;
mod inside;
mod monitor;
mod notify;
mod states;
mod ticks;

pub use export::Exporter;
pub use hypervisor::Hypervisor;
pub use monitor::{Counts, Monitor};
pub use notify::{NotifyFault, notified};
pub use states::CountedUser;
