//! Errors that keep the pages from being shown.

use std::io;
use std::path::PathBuf;

/// Errors before the first page is shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The place to listen on cannot be parsed.
    #[error(
        "{0:?} is no place to listen: write 127.0.0.1:8420, [::1]:8420, \
         unix:/run/pinhead/web.sock or systemd"
    )]
    Place(String),
    /// Other machines can reach the address, but a password or TLS is missing.
    #[error(
        "{address} can be reached from other machines, and {lacks} not given: add \
         --password-file and --tls-cert, or listen at 127.0.0.1 or at a unix socket, behind a \
         proxy or `ssh -L`"
    )]
    Public {
        /// The address.
        address: std::net::SocketAddr,
        /// The missing options, with their verb.
        lacks: &'static str,
    },
    /// The unspecified address has no name, and browsers do not use this address as a name.
    #[error("{0} is no name that browsers ask by: add --name with the name that they use")]
    Nameless(std::net::SocketAddr),
    /// A certificate or its key cannot be used.
    #[error("{path} is no certificate or key to use: {why}")]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The password file cannot be used.
    #[error("{path} is no password file to use: {why}")]
    PasswordFile {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("Cannot read or write {path}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Users other than the owner may use a socket of systemd, and there is no password.
    #[error(
        "Others than the owner of the socket {0} may use it, and there is no password: let its \
         socket unit say SocketMode=0600, or add --password-file"
    )]
    OpenSocket(PathBuf),
    /// systemd did not pass a socket to the process.
    #[error(
        "No socket came with this process: `--listen systemd` is for a unit with a socket unit, \
         which gives it one"
    )]
    NoSocket,
    /// The socket cannot listen at this place.
    #[error("Cannot listen at {place}")]
    Bind {
        /// The place.
        place: String,
        /// Cause.
        source: io::Error,
    },
    /// The socket's path belongs to a file that is not a socket.
    #[error("{0} is there and is no socket: name another place")]
    Taken(PathBuf),
    /// Another process already listens at the socket.
    #[error("Somebody listens at {0} already")]
    InUse(PathBuf),
    /// The system refused a step.
    #[error("Cannot {step}")]
    Step {
        /// The step.
        step: &'static str,
        /// Cause.
        source: io::Error,
    },
}
