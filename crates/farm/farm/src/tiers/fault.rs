//! Errors of the tiers.

use std::io;

use crate::Error;

/// Names of the tiers in errors.
pub(super) const CGROUP: &str = "cgroup";
pub(super) const ZRAM: &str = "zram";
pub(super) const SWAP: &str = "swap file";
pub(super) const KSM: &str = "KSM";
pub(super) const RECORD: &str = "record";

/// Adds the name of the tier to an error.
pub(super) trait TierContext<T> {
    /// Wraps the error. `what` describes the failure and begins with "cannot".
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

/// Ignores an error about a missing file, which need not be removed.
pub(super) fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}
