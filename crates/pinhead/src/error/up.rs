//! Errors of a farm's start, and of its end.

use std::path::PathBuf;
use std::process::ExitStatus;

/// A farm that cannot be started, or has ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    #[error("There is no class `{}` in {path}; the classes are {known}", .class.escape_debug())]
    NoClass { class: String, path: PathBuf, known: String },
    #[error(
        "Class `{class}`: QEMU has no permission for ports below {first}, such as `host = {port}` \
         in its `ports`; use a higher port"
    )]
    Port { class: String, port: u16, first: u16 },
    #[error("The rules are refused\n{faults}")]
    Rules { faults: String },
    #[error(
        "There is no guest daemon for {arch} at {places}. The package pinhead contains it; in a \
         checkout, run `make {target}`"
    )]
    NoDaemon { arch: &'static str, places: String, target: &'static str },
    #[error("{path} is too long for a socket")]
    SocketPath { path: PathBuf },
    #[error(
        "A farm called {name} runs already (process {pid}): end it with `pinhead down {name}`, or \
         give this farm another `name`"
    )]
    NameTaken { name: String, pid: u32 },
    #[error("The output of the farm's process cannot be read")]
    NoOutput,
    /// The reason, as reported by the farm's process.
    #[error("{0}")]
    Process(String),
    #[error("The farm's process ended before all guests were started: {status}")]
    EndedEarly { status: ExitStatus },
    #[error("All guests have ended by themselves")]
    AllEnded,
}
