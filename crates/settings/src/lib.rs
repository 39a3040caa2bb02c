//! Files of settings in TOML, read so that every fault is told at once with its place.
//!
//! ```text
//!   text ─► Reader (toml, with places) ─► take(key, converter) ─► values ─► the owner's checks
//!                └─────────── every fault with its line and column ────────────┘
//! ```
//!
//! What a file may hold is its owner's: a table of [`Section`]s, against which unknown names are
//! refused with the nearest one that is known. This crate keeps no default.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod convert;
mod fault;
mod keys;
mod load;
mod quantity;
mod read;

pub use convert::{
    Converted, Wrong, kind, list, number, permille, share, shown, size, time, truth, words, wrong,
};
pub use fault::{ERRORS_MAX, Fault};
pub use keys::{Key, Section, key};
pub use load::{FILE_MAX, LoadError, load};
pub use quantity::{Share, percent};
pub use read::{Entries, Maybe, Reader, Typed};
pub use toml::Spanned;
pub use toml::de::{DeTable, DeValue};
