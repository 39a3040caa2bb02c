//! Errors of values on the command line, which clap shows with their option.

/// A value that an option cannot have. The message names those that it can.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("use a time from {min_s}s to {max_s}s, such as 60s or 5m")]
    Watch { min_s: u64, max_s: u64 },
    #[error("use a time, such as 7d or 12h")]
    Age,
    #[error("use a percentage from \"0%\" to \"100%\", with at most one decimal: \"99.5%\"")]
    Part,
    #[error("use a percentage up to \"1000%\", with at most one decimal: \"3%\"")]
    Growth,
    #[error("{help}")]
    Size { help: String },
}
