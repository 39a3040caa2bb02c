//! What goes wrong with a tier.

use std::io;

use crate::Error;

/// Which tier an error is about.
pub(super) const CGROUP: &str = "cgroup";
pub(super) const ZRAM: &str = "zram";
pub(super) const SWAP: &str = "swap file";
pub(super) const KSM: &str = "KSM";
pub(super) const RECORD: &str = "record";

pub(super) fn failed(tier: &'static str, what: String, source: io::Error) -> Error {
    Error::Tier { tier, what, source: Some(source) }
}

pub(super) fn refused(tier: &'static str, what: impl Into<String>) -> Error {
    Error::Tier { tier, what: what.into(), source: None }
}

/// What could not be undone, as the operator reads it.
pub(super) fn sentence(error: &Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
