//! Formats and helpers shared by all crates. They cover units, sizes and durations, patterns of
//! names, near names, tables, medians, days of the calendar, and errors with their causes. Text is
//! made safe for a terminal, a page or a shell, and measured in columns.
//!
//! Nothing here does I/O, reads a clock or depends on guests.

#![forbid(unsafe_code)]

pub mod civil;
#[cfg(feature = "terminal")]
mod columns;
mod counted;
mod csv;
pub mod duration;
mod encoding;
mod error;
mod fall;
pub mod glob;
mod hash;
pub mod html;
mod named;
mod names;
mod page_run;
mod plain;
mod quantity;
mod rng;
mod shell;
mod size;
mod skipped;
mod spread;
#[cfg(feature = "terminal")]
mod table;
mod units;
#[cfg(feature = "terminal")]
mod wrap;

#[cfg(feature = "terminal")]
pub use columns::{clip, columns, padded, plain};
pub use counted::counted;
pub use csv::{csv_record, csv_text};
pub use encoding::foreign_encoding;
pub use error::chain;
pub use fall::is_small_fall;
pub use hash::StableHash;
pub use names::{correction, edits, natural, nearest};
pub use page_run::PageRun;
pub use plain::{is_plain, plain_json};
pub use quantity::{Bad, Kind, WHOLE, parse_percent, thousandths};
pub use rng::Rng;
pub use shell::shell_word;
pub use size::{SIZE_HELP, exact_size, parse_mib, parse_size, size_text};
pub use spread::Spread;
#[cfg(feature = "terminal")]
pub use table::{Column, Fitted, Table, left, prose, right};
pub use units::{Bytes, GIB, KIB, Kib, MIB, PAGE_BYTES, PAGE_KIB, Pages};
#[cfg(feature = "terminal")]
pub use wrap::{broken, flowed, wrapped};

pub(crate) use quantity::split;
