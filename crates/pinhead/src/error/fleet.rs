//! Errors of fleets.

/// Hosts of a fleet that cannot be shown, or watched.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    #[error(
        "The metrics server has no data of this time. Is the address right, and does a manager \
         push to this server?"
    )]
    NoHosts,
    #[error("{uri}: two hosts are called {name}. Give one of them another name in ~/.ssh/config")]
    SameHost { uri: String, name: String },
    /// Hosts without an answer, each with the reason.
    #[error("{}", .hosts.join("\npinhead: "))]
    Silent { hosts: Vec<String> },
    #[error("{name:?} is not a host name")]
    NoAddress { name: String },
    #[error("A host is no longer watched: see the messages above")]
    Unwatched,
}
