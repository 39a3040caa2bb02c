//! Errors of the manager, and of commands that query it.

/// A request to the manager, or its answer, that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManageError {
    #[error("`{word}` needs a value, such as {example}")]
    NoValue { word: String, example: &'static str },
    #[error("`{word}` takes no value")]
    NeedlessValue { word: String },
    #[error("`{word}` cannot be `{value}`")]
    NoSize { word: String, value: String, source: base::Bad },
    #[error("`shares` must be a whole number of at least 1")]
    NoShares,
    #[error("No guest matches `{}`: {hint}", .pattern.escape_debug())]
    NoMatch { pattern: String, hint: String },
    #[error("The table has no column `{}`: its columns are {known}", .name.escape_debug())]
    NoColumn { name: String, known: String },
    #[error("`--columns` and `--sort` are only for tables: omit them, because JSON has all fields")]
    TextOnly,
    #[error(
        "The manager's response belongs to another request: use the same version of pinhead for \
         the manager and for this command"
    )]
    OtherAnswer,
    #[error("The guest, its daemon or the manager has restarted in the meantime: try again")]
    Restarted,
    /// All faults of the settings, a line each.
    #[error("The settings are refused\n  {}", .faults.replace('\n', "\n  "))]
    Settings { faults: String },
    #[error("Some guests did not get all their memory back")]
    PartlyRestored,
}
