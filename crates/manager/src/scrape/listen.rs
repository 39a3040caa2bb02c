//! Where the metrics are served.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where scrapers connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address of this host.
    Tcp(SocketAddr),
    /// A socket in the file system, open to its owner.
    Unix(PathBuf),
}

impl Listen {
    /// As it is written.
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
