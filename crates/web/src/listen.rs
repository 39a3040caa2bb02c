//! Where browsers come: an address of this machine alone, or a unix socket.

use crate::Error;
use crate::access::Names;
use rustix::fs::Mode;
use rustix::process::umask;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, UnixListener};

/// A place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address of this machine.
    Tcp(SocketAddr),
    /// A socket that only its owner and root may use.
    Unix(PathBuf),
}

/// What listens there.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// The path is removed at the end.
    Unix(UnixListener, PathBuf),
}

impl Listen {
    /// Reads `127.0.0.1:8420` or `unix:PATH`. An address that can be reached from other machines
    /// is refused.
    pub fn parse(text: &str) -> Result<Listen, Error> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Listen::Unix(path.into()));
        }
        let address: SocketAddr =
            text.parse().map_err(|_| Error::Place(text.chars().take(80).collect()))?;
        match address.ip().is_loopback() {
            true => Ok(Listen::Tcp(address)),
            false => Err(Error::Public(address)),
        }
    }

    /// Begins to listen, and tells by which names browsers may ask.
    pub(crate) fn bind(&self, names: &[String]) -> Result<(Listener, Names), Error> {
        let wrong = |source| Error::Bind { place: self.to_string(), source };
        match self {
            Listen::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address).map_err(wrong)?;
                listener.set_nonblocking(true).map_err(wrong)?;
                let address = listener.local_addr().map_err(wrong)?;
                let listener = TcpListener::from_std(listener).map_err(wrong)?;
                Ok((Listener::Tcp(listener), Names::of_address(address, names)))
            }
            Listen::Unix(path) => {
                free(path)?;
                // Nobody else may connect, not even for a moment.
                let before = umask(Mode::from_raw_mode(0o177));
                let bound = UnixListener::bind(path);
                umask(before);
                Ok((Listener::Unix(bound.map_err(wrong)?, path.clone()), Names::of_socket(names)))
            }
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Takes away a socket that nobody listens at any more.
fn free(path: &Path) -> Result<(), Error> {
    let step = |source| Error::Step { step: "look at the socket's path", source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(step(error)),
        Ok(found) if !found.file_type().is_socket() => Err(Error::Taken(path.into())),
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            Err(Error::InUse(path.into()))
        }
        Ok(_) => std::fs::remove_file(path).map_err(step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machines_own_addresses_are_taken() {
        let parsed = |text: &str| Listen::parse(text);
        assert!(matches!(parsed("127.0.0.1:0"), Ok(Listen::Tcp(_))));
        assert!(matches!(parsed("[::1]:8420"), Ok(Listen::Tcp(_))));
        assert_eq!(parsed("unix:/run/w").unwrap(), Listen::Unix("/run/w".into()));
        for public in ["0.0.0.0:80", "[::]:80", "192.0.2.7:8420"] {
            let error = parsed(public).unwrap_err();
            assert!(matches!(error, Error::Public(_)), "{error}");
        }
        for wrong in ["", "unix:", "8420", "localhost:8420", "/run/x"] {
            let error = parsed(wrong).unwrap_err();
            assert!(error.to_string().contains("is no place to listen"), "{error}");
        }
    }
}
