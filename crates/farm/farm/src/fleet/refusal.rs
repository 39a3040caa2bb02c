//! Reasons why a guest stays awake, or never wakes again.

use std::io;

/// Reason why a guest cannot be parked now.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("it is {0}")]
    State(&'static str),
    #[error("a command runs in it")]
    Command,
    #[error("a terminal is attached to it")]
    Terminal,
    #[error("its host manager would lose the connection to it")]
    Managed,
    #[error(
        "it has booted, and only a guest that was cloned from a template can be parked on disk"
    )]
    Booted,
    #[error("its balloon is changing its size")]
    Balloon,
    #[error("other guests use it through a link, and data on a link does not wake a guest")]
    Linked,
    #[error("clients are connected to its ports ({count})")]
    Clients { count: usize },
    #[error("a client has just sent data, or waits for a response")]
    BusyClient,
    #[error("its ports cannot be watched")]
    Ports(#[source] io::Error),
    #[error("its QEMU does not answer")]
    Silent,
}

/// Reason why a guest with a stopped QEMU never runs again. The guest is then ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotWoken {
    #[error("The guest cannot be woken")]
    Process(#[source] io::Error),
    #[error("The guest cannot be woken: its QEMU does not answer")]
    Silent,
    /// A refusal by QEMU, with QEMU's message.
    #[error("The guest cannot be woken: {desc}")]
    Refused { desc: String },
}
