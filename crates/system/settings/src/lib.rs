//! Files of settings in TOML: all errors are reported at once with their positions.
//!
//! ```text
//!   text ─► Reader (toml, with places) ─► a row of table! for each key ─► the owner's checks
//!                └─────────── every fault with its line and column ─────────────┘
//! ```
//!
//! The owner defines the content of a file by structs. The macro [`table!`] defines a struct with a
//! row for each key. An unknown name is refused, and the error suggests the nearest known name.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod convert;
mod fault;
mod in_force;
mod load;
mod quantity;
mod read;
mod table;

pub use convert::{
    Converted, Wrong, checked, kind, list, number, one_of, path, permille, share, shown, size,
    tables, time, truth, words, wrong,
};
pub use fault::{ERRORS_MAX, Fault};
pub use in_force::{in_force, quoted};
pub use load::{FILE_MAX, LoadError, load};
pub use quantity::Share;
pub use read::{Entries, Key, Reader, Section, Table};
pub use toml::de::{DeTable as Tree, DeValue};
