//! File of a guest that is parked on disk. The file contains the guest's differences from its
//! template.
//!
//! ```text
//!   "pinpark" 1    header      devices...          pages...                 end
//!   8 bytes        a block     blocks              blocks                   a block: their number
//!
//!   a block:  kind 1 │ length 4 │ stored length 4 │ CRC-32 4 │ stored bytes: one LZ4 block
//!   header:   machine 8 │ memory 8 │ page 8 │ written at, s since 1970 8 │ guest's name
//!   devices:  a part of the device state that QEMU has written
//!   pages:    runs 4 │ each: first page 8, pages 4 │ their bytes
//! ```
//!
//! Numbers are little-endian. A block's CRC covers its kind, both lengths and the stored bytes. A
//! changed file, or a file without its last block, is invalid. [`check`] reads the whole file to
//! detect this, and applies nothing.

mod block;
mod read;
mod write;

pub use block::with_checksums;
pub use read::{Part, Reader, check};
pub use write::Writer;

/// Header of the file, which describes the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name of the guest.
    pub guest: String,
    /// Number that identifies the machine and the template that the file belongs to.
    pub machine: u64,
    /// Size of the guest's memory, in bytes.
    pub memory_bytes: u64,
    /// Size of the host's pages, in bytes.
    pub page_bytes: u64,
    /// Time of writing, in seconds since 1970.
    pub saved_at_s: u64,
}

/// The error of an invalid file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file is damaged, or of another kind. The text names the damaged part.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

pub(crate) fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged(what.into())
}

#[cfg(test)]
mod tests;
