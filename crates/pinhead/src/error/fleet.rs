//! Errors of fleets.

/// Hosts of a fleet that cannot be shown, or watched.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    #[error(
        "The engine knows nothing of this time: is it the right one, and does a manager push to it?"
    )]
    NoHosts,
    #[error(
        "{uri}: {name} is there twice, and hosts are told apart by their names: give one of them \
         another in ~/.ssh/config"
    )]
    SameHost { uri: String, name: String },
    /// Hosts without an answer, each with the reason.
    #[error("{}", .hosts.join("\npinhead: "))]
    Silent { hosts: Vec<String> },
    #[error("{name:?} is no name that a host is reached by")]
    NoAddress { name: String },
    #[error("A host is not watched any more: see above")]
    Unwatched,
}
