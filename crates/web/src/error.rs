//! Why the pages cannot be shown.

use std::io;
use std::path::PathBuf;

/// Everything that can go wrong before a page is shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that is none.
    #[error(
        "{0:?} is no place to listen: write 127.0.0.1:8420, [::1]:8420, \
         unix:/run/pinhead/web.sock or systemd"
    )]
    Place(String),
    /// An address that others than this machine's users can reach, without what it needs.
    #[error(
        "{address} can be reached from other machines, and {lacks} not given: add \
         --password-file and --tls-cert, or listen at 127.0.0.1 or at a unix socket, behind a \
         proxy or `ssh -L`"
    )]
    Public {
        /// Which.
        address: std::net::SocketAddr,
        /// What it lacks.
        lacks: &'static str,
    },
    /// All addresses of this machine, by none of which browsers ask.
    #[error("{0} is no name that browsers ask by: add --name with the name that they use")]
    Nameless(std::net::SocketAddr),
    /// A certificate or its key.
    #[error("{path} is no certificate or key to use: {why}")]
    Certificate {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A password file.
    #[error("{path} is no password file to use: {why}")]
    PasswordFile {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file that cannot be read or written.
    #[error("Cannot read or write {path}")]
    File {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A socket of systemd's that others than its owner may use.
    #[error(
        "Others than the owner of the socket {0} may use it, and there is no password: let its \
         socket unit say SocketMode=0600, or add --password-file"
    )]
    OpenSocket(PathBuf),
    /// No socket came with the process.
    #[error(
        "No socket came with this process: `--listen systemd` is for a unit with a socket unit, \
         which gives it one"
    )]
    NoSocket,
    /// Nobody can listen there.
    #[error("Cannot listen at {place}")]
    Bind {
        /// Where.
        place: String,
        /// Why not.
        source: io::Error,
    },
    /// Something else than a socket is where it is to be.
    #[error("{0} is there and is no socket: name another place")]
    Taken(PathBuf),
    /// Somebody listens there already.
    #[error("Somebody listens at {0} already")]
    InUse(PathBuf),
    /// A step that the system refused.
    #[error("Cannot {step}")]
    Step {
        /// What was to be done.
        step: &'static str,
        /// Why it was not.
        source: io::Error,
    },
}
