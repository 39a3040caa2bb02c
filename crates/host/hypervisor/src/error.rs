//! Errors in the configuration of a source of guests.

/// The errors of this crate. Later failures are events and not errors, because a source without
/// guests may get guests later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "Pattern \"{pattern}\" is not an absolute path such as /run/guests/*.qmp, \
                 without empty parts, \".\" and \"..\""
    )]
    Pattern { pattern: String },
}
