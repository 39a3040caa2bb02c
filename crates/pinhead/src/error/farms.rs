//! Errors of commands for farms that run.

/// A farm or a guest that cannot be found, or that fails to carry out a request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FarmCommandError {
    #[error("You have no running farm: `pinhead up` starts guests")]
    NoFarm,
    #[error(
        "You have no running farm, and no manager responds: `pinhead up` starts guests, and \
         `pinhead host` manages guests of libvirt and QEMU"
    )]
    NoManager,
    #[error("Several farms run: add the name of one: {names}")]
    SeveralFarms { names: String },
    #[error("No farm `{}` runs: {hint}", .name.escape_debug())]
    UnknownFarm { name: String, hint: String },
    /// Several farms have this name. The process ids of these farms are unique.
    #[error("{count} farms are called {name}: use a process ID, {pids}")]
    SameName { name: String, count: usize, pids: String },
    #[error("No guest `{}` runs", .name.escape_debug())]
    NoGuest { name: String },
    #[error("No guest `{}` runs: {hint}", .name.escape_debug())]
    UnknownGuest { name: String, hint: String },
    #[error("Several farms have a guest `{}`: use one of {places}", .name.escape_debug())]
    SeveralGuests { name: String, places: String },
    #[error("Farm {name} (process {pid}) does not end")]
    Endless { name: String, pid: u32 },
    #[error("A command is one line: put longer scripts into a file of the guest")]
    SeveralLines,
}
