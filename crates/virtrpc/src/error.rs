//! What can be wrong with bytes from libvirt's socket, and with our use of it.

/// Everything that this crate can object to.
///
/// After [`Error::Framing`] nothing of the stream can be understood any more, and the connection
/// is worth nothing. All others cost one message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A message has a length that the protocol does not know: where the next one begins is
    /// not known either.
    #[error("No message of libvirt's protocol has a length of {length_bytes} bytes")]
    Framing { length_bytes: u32 },
    #[error("Message of libvirt has {length_bytes} bytes, which is more than {limit_bytes}")]
    TooLong { length_bytes: usize, limit_bytes: usize },
    /// A message is of another program, version or type than those that we take part in.
    #[error("Message of libvirt has an unknown {member}: {value:#x}")]
    Foreign { member: &'static str, value: u32 },
    /// A message's body is too short, too long or out of bounds.
    #[error("Message {what} of libvirt has no proper member \"{member}\"")]
    Body { what: &'static str, member: &'static str },
    #[error("Answer of libvirt has serial number {serial}, which no open call has")]
    UnknownSerial { serial: u32 },
    /// Too many calls are open: the daemon has stopped to answer, or nobody reads the answers.
    #[error("More than {limit} calls to libvirt are open")]
    Backlog { limit: usize },
}

impl Error {
    /// Whether nothing more can come of the connection.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Error::Framing { .. })
    }
}
