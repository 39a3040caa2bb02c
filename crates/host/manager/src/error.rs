//! Errors that stop the manager, or prevent its start.

use std::io;
use std::path::PathBuf;

/// The manager cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Settings(crate::config::LoadError),
    #[error("The rules in {path} cannot be read")]
    Rules { path: PathBuf, source: io::Error },
    #[error(
        "The rules in {path} have {count} fault(s), the first at {first}; `pinhead check` shows \
         all of them"
    )]
    RulesWrong { path: PathBuf, first: String, count: usize },
    #[error(transparent)]
    Machine(procfs::Error),
    /// The poll failed, which does not normally happen.
    #[error("Waiting for guests failed")]
    Poll { source: io::Error },
    #[error(transparent)]
    Control(crate::control::Error),
    /// There is no place for the control socket.
    #[error("No directory for the control socket: {why}, or set `socket` in [control]")]
    NoPlace { why: String },
    #[error("The list of users, {path}, cannot be read: write numbers in `users` of [sources]")]
    Accounts { path: PathBuf, source: io::Error },
    #[error("There is no user {}: change [sources] users", .user.escape_debug())]
    NoSuchUser { user: String },
    #[error(
        "{} and {} are the same user, number {number}: list the user once in `users` of [sources]",
        .first.escape_debug(), .second.escape_debug()
    )]
    OneUserTwice { first: String, second: String, number: u32 },
    /// The keeper, which restores the guests, cannot be started.
    #[error(
        "The keeper could not be started. Without a keeper, guests do not get their memory back if \
         this manager is killed"
    )]
    Keeper { source: io::Error },
}
