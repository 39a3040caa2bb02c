//! Places to listen on: a TCP address, a Unix socket, or a socket that systemd passes.
//!
//! An address that other machines reach needs a password and TLS.

use crate::Error;
use crate::access::Names;
use listenfd::ListenFd;
use rustix::fs::Mode;
use rustix::process::umask;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Maximum number of connections that are not accepted yet. With thousands of connections a second,
/// strangers could fill the usual 128 places. A visitor's browser would then retry only after a
/// second.
const WAITING_MAX: i32 = 4_096;

/// A place to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address of this machine.
    Tcp(SocketAddr),
    /// A Unix socket that only its owner and root may use.
    Unix(PathBuf),
    /// A TCP or Unix socket that systemd passes to the process.
    Systemd,
}

/// Protection of an address, which is required if other machines can reach the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guarded {
    pub(crate) by_password: bool,
    pub(crate) by_tls: bool,
}

impl Guarded {
    /// Returns the missing options, followed by "is" or "are".
    fn lacks(self) -> Option<&'static str> {
        match (self.by_password, self.by_tls) {
            (true, true) => None,
            (true, false) => Some("a certificate for TLS is"),
            (false, true) => Some("a password file is"),
            (false, false) => Some("a password file and a certificate for TLS are"),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// A Unix socket. The path is removed at the end if this process created it.
    Unix(UnixListener, Option<PathBuf>),
}

impl Listen {
    /// Parses `127.0.0.1:8420`, `unix:PATH` or `systemd`.
    pub fn parse(text: &str) -> Result<Listen, Error> {
        if text == "systemd" {
            return Ok(Listen::Systemd);
        }
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Listen::Unix(path.into()));
        }
        let address = text.parse().map_err(|_| Error::Place(text.chars().take(80).collect()))?;
        Ok(Listen::Tcp(address))
    }

    /// Binds the socket, and returns the host names that browsers may use. If other machines can
    /// reach an unprotected address, the result is an error.
    pub(crate) fn bind(
        &self,
        names: &[String],
        guarded: Guarded,
    ) -> Result<(Listener, Names), Error> {
        let wrong = |source| Error::Bind { place: self.to_string(), source };
        match self {
            Listen::Tcp(address) => {
                allowed(*address, guarded)?;
                let listener = TcpListener::bind(address).map_err(wrong)?;
                tcp(listener, names, guarded, wrong)
            }
            Listen::Unix(path) => {
                free(path)?;
                // Other users must not be able to connect, not even for a moment.
                let before = umask(Mode::from_raw_mode(0o177));
                let bound = UnixListener::bind(path);
                umask(before);
                let listener = Listener::Unix(bound.map_err(wrong)?, Some(path.clone()));
                Ok((listener, Names::of_socket(names)))
            }
            Listen::Systemd => {
                let mut given = ListenFd::from_env();
                // systemd does not report the kind of the socket, so both kinds are tried.
                if let Ok(Some(listener)) = given.take_tcp_listener(0) {
                    let address = listener.local_addr().map_err(wrong)?;
                    allowed(address, guarded)?;
                    return tcp(listener, names, guarded, wrong);
                }
                let listener = given.take_unix_listener(0).ok().flatten().ok_or(Error::NoSocket)?;
                if !guarded.by_password {
                    owners_alone(&listener)?;
                }
                listener.set_nonblocking(true).map_err(wrong)?;
                let listener = UnixListener::from_std(listener).map_err(wrong)?;
                Ok((Listener::Unix(listener, None), Names::of_socket(names)))
            }
        }
    }
}

/// Checks the mode of a socket that systemd created. Only the owner may be able to connect.
fn owners_alone(listener: &std::os::unix::net::UnixListener) -> Result<(), Error> {
    let path = listener.local_addr().ok().and_then(|at| at.as_pathname().map(Path::to_owned));
    let mode =
        path.as_ref().and_then(|path| std::fs::metadata(path).ok()).map(|found| found.mode());
    match mode.is_some_and(|mode| mode & 0o077 == 0) {
        true => Ok(()),
        false => Err(Error::OpenSocket(path.unwrap_or_else(|| "(no path)".into()))),
    }
}

/// Checks that it is safe to listen on an address.
fn allowed(address: SocketAddr, guarded: Guarded) -> Result<(), Error> {
    match guarded.lacks().filter(|_| !address.ip().is_loopback()) {
        None => Ok(()),
        Some(lacks) => Err(Error::Public { address, lacks }),
    }
}

fn tcp(
    listener: TcpListener,
    names: &[String],
    guarded: Guarded,
    wrong: impl Fn(io::Error) -> Error,
) -> Result<(Listener, Names), Error> {
    listener.set_nonblocking(false).map_err(&wrong)?;
    rustix::net::listen(&listener, WAITING_MAX).map_err(|errno| wrong(errno.into()))?;
    let address = listener.local_addr().map_err(&wrong)?;
    if address.ip().is_unspecified() && names.is_empty() {
        return Err(Error::Nameless(address));
    }
    Ok((Listener::Tcp(listener), Names::of_address(address, guarded.by_tls, names)))
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
            Listen::Systemd => f.write_str("the socket of systemd"),
        }
    }
}

/// Removes the file of a socket on which no process listens.
fn free(path: &Path) -> Result<(), Error> {
    let step = |source| Error::Step { step: "check the file at the path of the socket", source };
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
    fn a_place_is_an_address_or_a_socket() {
        let parsed = |text: &str| Listen::parse(text);
        assert!(matches!(parsed("127.0.0.1:0"), Ok(Listen::Tcp(_))));
        assert!(matches!(parsed("[::1]:8420"), Ok(Listen::Tcp(_))));
        assert_eq!(parsed("unix:/run/w").unwrap(), Listen::Unix("/run/w".into()));
        assert_eq!(parsed("systemd").unwrap(), Listen::Systemd);
        for wrong in ["", "unix:", "8420", "localhost:8420", "/run/x"] {
            let error = parsed(wrong).unwrap_err();
            assert!(error.to_string().contains("Cannot listen at"), "{error}");
        }
    }

    #[test]
    fn an_address_that_others_reach_needs_a_password_and_tls() {
        let allowed = |text: &str, by_password, by_tls| {
            allowed(text.parse().unwrap(), Guarded { by_password, by_tls })
        };
        for public in ["0.0.0.0:80", "[::]:80", "192.0.2.7:8420"] {
            assert!(allowed(public, true, true).is_ok());
            for (by_password, by_tls, lacks) in [
                (false, false, "a password file and a certificate for TLS are missing"),
                (true, false, "but a certificate for TLS is missing"),
                (false, true, "but a password file is missing"),
            ] {
                let error = allowed(public, by_password, by_tls).unwrap_err().to_string();
                assert!(error.contains(lacks), "{error}");
            }
        }
        assert!(allowed("127.0.0.2:80", false, false).is_ok());
        assert!(allowed("[::1]:80", false, false).is_ok());
    }
}
