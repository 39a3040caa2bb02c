//! Errors that keep the pages from being shown.

use std::io;
use std::path::PathBuf;

/// Errors before the first page is shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The place to listen on cannot be parsed.
    #[error(
        "Cannot listen at {0:?}: use 127.0.0.1:8420, [::1]:8420, \
         unix:/run/pinhead/web.sock or systemd"
    )]
    Place(String),
    /// Other machines can reach the address, but a password or TLS is missing.
    #[error(
        "Other machines can reach {address}, but {lacks} missing: add \
         --password-file and --tls-cert, or listen at 127.0.0.1 or at a unix socket, behind a \
         proxy or `ssh -L`"
    )]
    Public {
        /// The address.
        address: std::net::SocketAddr,
        /// Missing options, followed by "is" or "are".
        lacks: &'static str,
    },
    /// Browsers cannot reach the pages at the unspecified address, so the pages need a name.
    #[error("{0} is no address for a browser: add --name with the host name that browsers use")]
    Nameless(std::net::SocketAddr),
    /// A certificate or its key cannot be used.
    #[error("The certificate or key {path} cannot be used: {why}")]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The password file cannot be used.
    #[error("The password file {path} cannot be used: {why}")]
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
        "Users other than the owner may use the socket {0}, and there is no password: set \
         SocketMode=0600 in the socket unit, or add --password-file"
    )]
    OpenSocket(PathBuf),
    /// systemd did not pass a socket to the process.
    #[error(
        "systemd passed no socket to this process: `--listen systemd` needs a service with a \
         socket unit"
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
    #[error("{0} exists and is not a socket: choose another path")]
    Taken(PathBuf),
    /// Another process already listens at the socket.
    #[error("Another process already listens at {0}")]
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
