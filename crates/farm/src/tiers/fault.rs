//! What goes wrong with a tier.

use std::io;

use crate::Error;

/// Which tier an error is about.
pub(super) const CGROUP: &str = "cgroup";
pub(super) const ZRAM: &str = "zram";
pub(super) const SWAP: &str = "swap file";
pub(super) const KSM: &str = "KSM";
pub(super) const RECORD: &str = "record";

/// Adds to an error which tier it is about.
pub(super) trait TierContext<T> {
    /// `what` could not be done, in words that begin with "cannot".
    fn tier(self, tier: &'static str, what: impl Into<String>) -> Result<T, Error>;
}

impl<T> TierContext<T> for io::Result<T> {
    fn tier(self, tier: &'static str, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::Tier { tier, what: what.into(), source: Some(source) })
    }
}

pub(super) fn refused(tier: &'static str, what: impl Into<String>) -> Error {
    Error::Tier { tier, what: what.into(), source: None }
}

/// What is not there need not be removed.
pub(super) fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// What could not be undone, as the operator reads it.
pub(super) fn sentence(error: &Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
