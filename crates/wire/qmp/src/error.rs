//! Errors in bytes from a QMP socket, and in the use of this crate.

/// An error of this crate.
///
/// After a decoding error (`TooLong`, `Utf8`, `Json`, `Shape`) the invalid line is dropped, and the
/// decoder continues with the next line. The caller decides if the connection is still worth
/// keeping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("QMP line is longer than {limit_bytes} bytes")]
    TooLong { limit_bytes: usize },
    #[error("QMP line is not UTF-8 at byte {offset}")]
    Utf8 { offset: usize },
    #[error("QMP line is not JSON at column {column}: {reason}")]
    Json { column: usize, reason: String },
    #[error("QMP message has no proper member \"{member}\"")]
    Shape { member: &'static str },
    #[error("Answer to {command} has no proper member \"{member}\"")]
    Reply { command: &'static str, member: &'static str },
    #[error("QMP answer has {}", unknown(*.id))]
    UnknownId { id: Option<u64> },
    /// QEMU refused the capabilities negotiation, so no command can follow.
    #[error("QEMU refused QMP negotiation: {desc}")]
    Refused { desc: String },
    /// Too many commands are open, because QEMU has stopped answering, or the answers are not read.
    #[error("More than {limit} QMP commands are open")]
    Backlog { limit: usize },
}

fn unknown(id: Option<u64>) -> String {
    id.map_or("no id".to_owned(), |id| format!("unknown id {id}"))
}
