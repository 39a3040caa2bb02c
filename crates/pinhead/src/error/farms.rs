//! Errors of commands for farms that run.

/// A farm or a guest that cannot be found, or does not do what it is to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FarmCommandError {
    #[error("No farm runs: `pinhead up FARM.toml` starts one")]
    NoFarm,
    #[error("No `pinhead up` is running: start one, or use --root")]
    NothingRuns,
    #[error("Several farms run: name one of {names}")]
    SeveralFarms { names: String },
    #[error(
        "No farm `{}` runs, and no `pinhead up` with this process id; there are {known}",
        .name.escape_debug()
    )]
    UnknownFarm { name: String, known: String },
    /// Farms of one name. A process id cannot be used twice.
    #[error("{count} farms are called {name}: take a process id, {pids}")]
    SameName { name: String, count: usize, pids: String },
    #[error("No guest `{}` runs", .name.escape_debug())]
    NoGuest { name: String },
    #[error("No guest `{}` runs; there are {near} and others", .name.escape_debug())]
    UnknownGuest { name: String, near: String },
    #[error("Several have one: {places}")]
    SeveralGuests { places: String },
    #[error("Farm {name} (process {pid}) does not end")]
    Endless { name: String, pid: u32 },
    #[error("A command is one line: put longer scripts into a file of the guest")]
    SeveralLines,
}
