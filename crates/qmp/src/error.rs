//! What can be wrong with bytes from a QMP socket, and with our use of it.

use std::fmt;

/// Everything that this crate can object to.
///
/// After a decoding error (`TooLong`, `Utf8`, `Json`, `Shape`) the offending line is gone and the
/// decoder goes on with the next one; whether the connection is still worth having is for the
/// caller to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A line grew past the limit without a newline.
    TooLong {
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// A line is not UTF-8.
    Utf8 {
        /// The offset of the first wrong byte in its line.
        offset: usize,
    },
    /// A line is not JSON.
    Json {
        /// The column, from 1, where the parser gave up.
        column: usize,
        /// What the parser said.
        reason: String,
    },
    /// A line is JSON but none of QMP's four messages.
    Shape {
        /// The member that is missing or has the wrong type.
        member: &'static str,
    },
    /// The answer to a command lacks a member or has it with the wrong type or size.
    Reply {
        /// The command by its QMP name.
        command: &'static str,
        /// The member that is missing, wrong or too large.
        member: &'static str,
    },
    /// An answer carries an id that no open command has.
    UnknownId {
        /// The id, if the answer had one at all.
        id: Option<u64>,
    },
    /// QEMU refused the capabilities negotiation, so no command can follow.
    Refused {
        /// QEMU's description.
        desc: String,
    },
    /// Too many commands are open: QEMU has stopped to answer, or nobody reads the answers.
    Backlog {
        /// The limit on open commands.
        limit: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TooLong { limit_bytes } => {
                write!(f, "QMP line is longer than {limit_bytes} bytes")
            }
            Error::Utf8 { offset } => write!(f, "QMP line is not UTF-8 at byte {offset}"),
            Error::Json { column, reason } => {
                write!(f, "QMP line is not JSON at column {column}: {reason}")
            }
            Error::Shape { member } => {
                write!(f, "QMP message has no proper member \"{member}\"")
            }
            Error::Reply { command, member } => {
                write!(f, "Answer to {command} has no proper member \"{member}\"")
            }
            Error::UnknownId { id: Some(id) } => write!(f, "QMP answer has unknown id {id}"),
            Error::UnknownId { id: None } => f.write_str("QMP answer has no id"),
            Error::Refused { desc } => write!(f, "QEMU refused QMP negotiation: {desc}"),
            Error::Backlog { limit } => write!(f, "More than {limit} QMP commands are open"),
        }
    }
}

impl std::error::Error for Error {}
