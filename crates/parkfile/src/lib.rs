//! The file of a guest that is parked on disk: what it has that its template has not.
//!
//! ```text
//!   "pinpark" 1    header      devices...          pages...                 end
//!   8 bytes        a block     blocks              blocks                   a block: how many
//!
//!   a block:  kind 1 │ length 4 │ stored length 4 │ CRC-32 4 │ stored bytes: LZ4, a block of it
//!   header:   machine 8 │ memory 8 │ page 8 │ written at, s since 1970 8 │ guest's name
//!   devices:  a part of what QEMU has written about its devices
//!   pages:    runs 4 │ each: first page 8, pages 4 │ their bytes
//! ```
//!
//! Numbers are little-endian. A block's CRC is over its kind, both lengths and what is stored. A
//! file without its last block, or with anything changed, is no such file: [`check`] reads all of
//! it and applies nothing.

#![forbid(unsafe_code)]

mod block;
mod read;
mod write;

pub use block::with_checksums;
pub use read::{Part, Reader, check};
pub use write::Writer;

/// What stands in the file about the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The guest's name.
    pub guest: String,
    /// A number of the machine and the template that the rest belongs to.
    pub machine: u64,
    /// The guest's memory.
    pub memory_bytes: u64,
    /// The host's pages.
    pub page_bytes: u64,
    /// When it was written, in seconds since 1970.
    pub saved_at_s: u64,
}

/// Why a file is not one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is something else, or damaged; the words say where.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

pub(crate) fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged(what.into())
}

#[cfg(test)]
mod tests;
