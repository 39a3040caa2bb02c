//! Errors of times on the command line.

/// A time of an option that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("The time ends before it begins: --from is after --to")]
    Backwards,
    #[error("--from must be at most a year before --to")]
    OverYear,
    #[error("--since must lie between --from and --to, more than a minute from either")]
    SinceOutside,
    #[error("--interval must be at least a minute, the resolution of recordings")]
    ShortInterval,
    #[error("--every must be one second or more")]
    EveryShort,
    #[error("--every must be one second to four minutes")]
    EveryOutside,
    #[error("--last must be one minute to seven days")]
    LastOutside,
}
