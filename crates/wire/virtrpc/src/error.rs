//! Errors in bytes from libvirt's socket, and in the use of this crate.

/// An error of this crate.
///
/// After [`Error::Framing`] the rest of the stream cannot be parsed, and the connection is
/// unusable. All other errors cost one message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A message has an impossible length, so the beginning of the next one is unknown too.
    #[error("No message of libvirt's protocol has a length of {length_bytes} bytes")]
    Framing { length_bytes: u32 },
    #[error("Message of libvirt has {length_bytes} bytes, which is more than {limit_bytes}")]
    TooLong { length_bytes: usize, limit_bytes: usize },
    /// A message is of an unsupported program, version or type.
    #[error("Message of libvirt has an unknown {member}: {value:#x}")]
    Foreign { member: &'static str, value: u32 },
    /// A message's body is too short, too long or out of bounds.
    #[error("Message {what} of libvirt has no proper member \"{member}\"")]
    Body { what: &'static str, member: &'static str },
    #[error("libvirt answered serial number {serial}, but no open call has this number")]
    UnknownSerial { serial: u32 },
    /// Too many calls are open: the daemon has stopped answering, or the answers are not read.
    #[error("More than {limit} calls to libvirt are open")]
    Backlog { limit: usize },
}

impl Error {
    /// Returns true if the connection is unusable.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Error::Framing { .. })
    }
}
