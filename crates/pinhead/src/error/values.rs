//! Errors of values on the command line, which clap shows with their option.

/// An invalid value of an option. The message names valid values.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error(transparent)]
    Quantity(#[from] base::Bad),
    #[error("use a value from {least} to {most}")]
    Outside { least: String, most: String },
}
