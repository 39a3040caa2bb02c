//! Errors of times on the command line.

/// A time of an option that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("The time ends before it begins: --from is after --to")]
    Backwards,
    #[error("--from is at most a year before --to")]
    OverYear,
    #[error("--since lies between --from and --to, more than a minute from either")]
    SinceOutside,
    #[error("--interval is at least a minute, the resolution of recordings")]
    ShortInterval,
    #[error("--every is one second or more")]
    EveryShort,
    #[error("--every is one second to four minutes")]
    EveryOutside,
    #[error("--last is one minute to seven days")]
    LastOutside,
}
