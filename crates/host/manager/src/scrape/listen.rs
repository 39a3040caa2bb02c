//! The address at which metrics are served.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Address for scrapers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address of this host.
    Tcp(SocketAddr),
    /// A socket in the file system, accessible to its owner only.
    Unix(PathBuf),
}

impl Listen {
    /// Returns the address as in the settings.
    pub fn shown(&self) -> String {
        match self {
            Listen::Tcp(address) => address.to_string(),
            Listen::Unix(path) => path.display().to_string(),
        }
    }

    /// Reads `127.0.0.1:9177`, `[::1]:9177` or `/a/path`.
    pub fn parse(text: &str) -> Option<Listen> {
        match text.starts_with('/') {
            true => Some(Listen::Unix(text.into())),
            false => text.parse().ok().map(Listen::Tcp),
        }
    }
}
