//! Why a host tells nothing.

use std::io;

/// A host that cannot be asked. What the other end says is in one line, and escaped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text names no such host.
    #[error("{uri}: {what}")]
    Uri {
        /// The text.
        uri: String,
        /// What is wrong with it, and what would be right.
        what: String,
    },
    /// There is no ssh here.
    #[error("Cannot start ssh")]
    Start(#[source] io::Error),
    /// The connection ended.
    #[error("ssh ended{}", tail(.0))]
    Ended(String),
    /// The connection failed.
    #[error("Cannot speak to ssh")]
    Io(#[from] io::Error),
    /// It has not told everything in time.
    #[error("No answer to {call} within the {seconds} s for all answers{}", tail(.said))]
    Slow {
        /// The call.
        call: &'static str,
        /// How long it had.
        seconds: u64,
        /// What ssh said.
        said: String,
    },
    /// It sends more than is taken.
    #[error(
        "More than {mib} MiB came before {call} was answered; 4,096 guests need 5: look at its \
         libvirt, or do not watch this host"
    )]
    Long {
        /// The call.
        call: &'static str,
        /// As much is taken.
        mib: usize,
    },
    /// Its guests have more counters than are taken.
    #[error("More than {most} numbers of its guests' devices: ask a libvirt with fewer guests")]
    Numbers {
        /// As many are taken.
        most: usize,
    },
    /// It speaks something else than libvirt.
    #[error("The other end is no libvirt")]
    Foreign(#[source] virtrpc::Error),
    /// What it answers is longer than is taken, or not what it should be.
    #[error("The answer to {call} cannot be read: {why}")]
    Unread {
        /// The call.
        call: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// libvirt refuses.
    #[error("libvirt refuses {call}: {why}")]
    Refused {
        /// The call.
        call: &'static str,
        /// Its reason.
        why: String,
    },
}

fn tail(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
