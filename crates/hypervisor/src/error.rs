//! Errors in the configuration of a source of guests.

/// The errors of this crate. Later failures are events and not errors: a source without guests
/// today may have some tomorrow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "Pattern \"{pattern}\" is not an absolute path such as /run/guests/*.qmp, \
                 without empty parts, \".\" and \"..\""
    )]
    Pattern { pattern: String },
}
