//! Errors of the commands, with messages for their user.

/// A command that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A farm cannot be found, or an answer cannot be shown.
    #[error(transparent)]
    Pinhead(#[from] pinhead::Error),
    /// A farm does not answer as expected.
    #[error(transparent)]
    Farm(#[from] farm::Error),
    #[error(transparent)]
    Load(#[from] lab::load::Error),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error("The farm has no class `{0}`")]
    NoClass(String),
    #[error("The farm has no guest `{0}`")]
    NoGuest(String),
    #[error("None of these guests has {0} on the host: add it to `ports` in the farm's file")]
    NoPort(String),
    #[error("{what}")]
    Step { what: &'static str, source: std::io::Error },
}

impl Error {
    pub(crate) fn step(what: &'static str, source: std::io::Error) -> Error {
        Error::Step { what, source }
    }
}
