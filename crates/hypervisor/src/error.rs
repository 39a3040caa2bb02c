//! What can be wrong with how a source of guests was asked for.

/// Everything that this crate objects to. What goes wrong later is an event and no error: a
/// source that finds nothing today may find something tomorrow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "Pattern \"{pattern}\" is not an absolute path such as /run/guests/*.qmp, \
                 without empty parts, \".\" and \"..\""
    )]
    Pattern { pattern: String },
}
