//! What a fleet's monitoring gets from pinhead, and how pinhead reads it back.
//!
//! ```text
//!   Moment ─► Latest ─┬─► text::render ─► a scraper (the server is the manager's own)
//!                     └─► Pusher: write::encode, snappy ─► POST, a thread of its own
//!
//!   Prometheus, VictoriaMetrics ─► read::pasts: raw samples ─► Moments ─► Intervals
//!                               ─► fleet::glance: what the engine adds up, of very many
//! ```
//!
//! Names, units and help texts are made from the tables of [`model`], so that there
//! is one list of what is measured. [`names`], [`text`], [`write`], [`http`] and [`rebuild`]
//! do no I/O; [`push`], [`read`] and [`fleet`] wait for others, and are not for the manager's
//! thread.

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
mod select;
pub mod text;
mod url;
pub mod write;

pub use error::Error;
pub use latest::{Latest, Processes};
pub use push::Pusher;
pub use read::pasts;
pub use url::Url;
