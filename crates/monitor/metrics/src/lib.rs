//! Export of metrics to a fleet's monitoring, and queries that read the metrics back. Hosts without
//! pinhead are queried over ssh, and another host exports their metrics.
//!
//! ```text
//!   Moment ─► Latest ─┬─► text::render ─► a scraper (the server is the manager's own)
//!                     └─► Pusher: write::encode, snappy ─► POST, a thread of its own
//!
//!   Prometheus, VictoriaMetrics ─► read::pasts: raw samples ─► Moments ─► Intervals
//!                               ─► fleet::glance: the server's sums, for very many hosts
//!
//!   libvirt of another host, by ssh ─► remote::Host::ask ─► Moment
//! ```
//!
//! Names, units and help texts are generated from the tables of [`model`], the only list of fields.
//! [`names`], [`text`], [`write`], [`http`] and [`rebuild`] do no I/O. [`push`], [`read`],
//! [`fleet`] and [`remote`] block, and must not run on the manager's thread.

#![forbid(unsafe_code)]

pub mod ask;
mod client;
mod clock;
mod error;
pub mod fleet;
pub mod http;
mod labels;
mod latest;
pub mod names;
pub mod push;
pub mod read;
pub mod rebuild;
pub mod remote;
mod select;
pub mod text;
mod url;
pub mod write;

pub use error::Error;
pub use latest::{Latest, Processes};
pub use push::Pusher;
pub use read::pasts;
pub use url::Url;
