//! What can be wrong with bytes from libvirt's socket, and with our use of it.

use std::fmt;

/// Everything that this crate can object to.
///
/// After [`Error::Framing`] nothing of the stream can be understood any more, and the connection
/// is worth nothing. All others cost one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A message has a length that the protocol does not know: where the next one begins is
    /// not known either.
    Framing {
        /// The length that it claims.
        length_bytes: u32,
    },
    /// A message is longer than what is kept. It was skipped.
    TooLong {
        /// Its length.
        length_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// A message is of another program, version or type than those that we take part in.
    Foreign {
        /// The member of its header that is unknown.
        member: &'static str,
        /// Its value.
        value: u32,
    },
    /// A message's body is too short, too long or out of bounds.
    Body {
        /// The message by its name in the protocol.
        what: &'static str,
        /// The member that is missing, wrong or too large.
        member: &'static str,
    },
    /// An answer has a serial number or a procedure that no open call has.
    UnknownSerial {
        /// The number.
        serial: u32,
    },
    /// Too many calls are open: the daemon has stopped to answer, or nobody reads the answers.
    Backlog {
        /// The limit on open calls.
        limit: usize,
    },
}

impl Error {
    /// Whether nothing more can come of the connection.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Error::Framing { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Framing { length_bytes } => {
                write!(f, "No message of libvirt's protocol has a length of {length_bytes} bytes")
            }
            Error::TooLong { length_bytes, limit_bytes } => write!(
                f,
                "Message of libvirt has {length_bytes} bytes, which is more than {limit_bytes}"
            ),
            Error::Foreign { member, value } => {
                write!(f, "Message of libvirt has an unknown {member}: {value:#x}")
            }
            Error::Body { what, member } => {
                write!(f, "Message {what} of libvirt has no proper member \"{member}\"")
            }
            Error::UnknownSerial { serial } => {
                write!(f, "Answer of libvirt has serial number {serial}, which no open call has")
            }
            Error::Backlog { limit } => write!(f, "More than {limit} calls to libvirt are open"),
        }
    }
}

impl std::error::Error for Error {}
