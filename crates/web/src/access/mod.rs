//! Who may see the pages: decided without a socket and without a clock.
//!
//! ```text
//!   request ─► guard: is it for us, and does another site send it? ─► keys: who is it?
//!                                                                      └► bucket: how often?
//! ```

mod bucket;
mod guard;
mod keys;

pub(crate) use bucket::Bucket;
pub(crate) use guard::{Heads, Names, Refusal, check};
pub(crate) use keys::{Fresh, Keys, Secret};
