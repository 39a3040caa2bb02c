//! Decisions about access to the pages, without sockets and clocks.
//!
//! ```text
//!   request ─► guard: is it for us, and does another site send it? ─► keys: which session?
//!                                 password, tries: a stranger's word ─┤
//!                                                                      └► bucket: how often?
//! ```

mod bucket;
mod guard;
mod keys;
mod origin;
mod password;
mod tries;

pub(crate) use bucket::Bucket;
pub(crate) use guard::{Heads, Names, Refusal, check};
pub(crate) use keys::{Fresh, Keys, Secret};
pub(crate) use origin::Origin;
pub(crate) use password::Password;
pub use password::write_password;
pub(crate) use tries::Tries;
