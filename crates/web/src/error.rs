//! Why the pages cannot be shown.

use std::io;
use std::path::PathBuf;

/// Everything that can go wrong before a page is shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that is none.
    #[error(
        "{0:?} is no place to listen: write 127.0.0.1:8420, [::1]:8420 or \
         unix:/run/pinhead/web.sock"
    )]
    Place(String),
    /// An address that others than this machine's users can reach.
    #[error(
        "{0} can be reached from other machines, and these pages have neither passwords nor TLS of \
         their own: listen at 127.0.0.1 or at a unix socket, behind a proxy or `ssh -L` that has \
         both"
    )]
    Public(std::net::SocketAddr),
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
