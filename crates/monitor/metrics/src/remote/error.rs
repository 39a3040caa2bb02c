//! Errors of requests to a host.

use std::io;

/// An error of a request to a host. Text from the other end is one line, and escaped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not a valid URI of a host.
    #[error("{uri}: {what}")]
    Uri {
        /// The text.
        uri: String,
        /// The error, and a correction.
        what: String,
    },
    /// ssh is not installed.
    #[error("Cannot start ssh")]
    Start(#[source] io::Error),
    /// The connection ended.
    #[error("ssh ended{}", tail(.0))]
    Ended(String),
    /// The connection failed.
    #[error("Cannot communicate with ssh")]
    Io(#[from] io::Error),
    /// The host did not answer everything in time.
    #[error(
        "The host did not answer {call} in time: the limit for all its answers together is \
         {seconds} s{}",
        tail(.said)
    )]
    Slow {
        /// The call.
        call: &'static str,
        /// The time limit, in seconds.
        seconds: u64,
        /// ssh's output.
        said: String,
    },
    /// The host sends more than is accepted.
    #[error(
        "The host's answer to {call} has more than {mib} MiB, but 4,096 guests need only 5 MiB: \
         check the host's libvirt, or do not watch this host"
    )]
    Long {
        /// The call.
        call: &'static str,
        /// The limit, in MiB.
        mib: usize,
    },
    /// The host's guests have more counters than are accepted.
    #[error("The guests have more than {most} counters of devices: watch a host with fewer guests")]
    Numbers {
        /// The limit.
        most: usize,
    },
    /// The other end is not libvirt.
    #[error("The other end is not libvirt")]
    Foreign(#[source] virtrpc::Error),
    /// An answer is too long, or malformed.
    #[error("The answer to {call} cannot be read: {why}")]
    Unread {
        /// The call.
        call: &'static str,
        /// The error.
        why: String,
    },
    /// libvirt refuses a call.
    #[error("libvirt refuses {call}: {why}")]
    Refused {
        /// The call.
        call: &'static str,
        /// libvirt's reason.
        why: String,
    },
}

fn tail(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
