//! Conversion of z/VM's monitor data and the hypervisor's counters to recorded fields, and back.
//!
//! ```text
//!   zmon::frame::Found ─► Monitor: state of each user ─► a Moment at each interval's end
//!   diag_2fc ───────────► Hypervisor ─► a Moment
//!   diag_204 ───────────► Hypervisor ─► a Moment
//!   a user's counters ─► CountedUser ─► a Row
//!   recorded intervals ─► Exporter ─► records, for readers of z/VM's monitor
//! ```
//!
//! A user of z/VM is a guest in recordings. A value that z/VM does not report is missing and never
//! invented. A derived value is marked in the code that derives it.

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
