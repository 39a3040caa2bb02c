//! Errors of sizes that are to be applied.

/// Advised sizes that cannot be applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    #[error(
        "No guest is known for long enough: look at `pinhead size` without --apply, or ask for \
         less history with --enough"
    )]
    NoHistory,
    #[error("None of these guests is of libvirt: use --apply manager, or --apply settings")]
    NotLibvirt,
    #[error("The name of the guest {name} has characters that a terminal obeys: leave it out")]
    ControlName { name: String },
    #[error(
        "Two guests are called {name}: name others, or use --apply manager, which knows them by \
         their UUIDs"
    )]
    SameName { name: String },
    #[error(
        "The guest {name} has a letter in its name that is a pattern in settings: leave it out"
    )]
    PatternName { name: String },
    #[error("Nothing is set: the manager has no guest {names}")]
    NotManaged { names: String },
}
