//! Errors in applying recommended sizes.

/// Recommended sizes that cannot be applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    #[error(
        "No guest has enough history: check `pinhead size` without --apply, or require less \
         history with --enough"
    )]
    NoHistory,
    #[error("None of these guests belongs to libvirt: use --apply manager, or --apply settings")]
    NotLibvirt,
    #[error(
        "The name of the guest {name} has control characters, which could harm a terminal: name \
         the other guests on the command line"
    )]
    ControlName { name: String },
    #[error(
        "Two guests are called {name}: choose other guests, or use --apply manager, which \
         identifies guests by UUID"
    )]
    SameName { name: String },
    #[error(
        "The name of the guest {name} contains * or ?, which are wildcards in settings: name the \
         other guests on the command line"
    )]
    PatternName { name: String },
    #[error("Nothing was set: the manager has no guest {names}")]
    NotManaged { names: String },
}
