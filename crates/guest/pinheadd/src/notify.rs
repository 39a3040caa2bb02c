//! Notifications to systemd, if systemd started the daemon.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket of the service manager, and the interval of its watchdog.
#[derive(Debug)]
pub struct Notify {
    socket: Option<UnixDatagram>,
    watchdog_ms: Option<u64>,
}

impl Notify {
    pub fn from_env() -> Notify {
        let path = std::env::var_os("NOTIFY_SOCKET");
        let interval = std::env::var("WATCHDOG_USEC").ok().and_then(|v| v.parse::<u64>().ok());
        let socket = path.and_then(|path| connect(&path));
        // The interval is half of the allowed time, as systemd's manual recommends.
        let watchdog_ms = interval.filter(|_| socket.is_some()).map(|us| (us / 2000).max(1));
        Notify { socket, watchdog_ms }
    }

    pub fn send(&self, line: &str) {
        if let Some(socket) = &self.socket {
            // An error is ignored, because systemd itself notices missing notifications.
            let _ = socket.send(line.as_bytes());
        }
    }

    /// Returns the maximum time between two keep-alive messages.
    pub fn watchdog_ms(&self) -> Option<u64> {
        self.watchdog_ms
    }
}

fn connect(path: &OsStr) -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    let address = match path.as_bytes() {
        // An abstract name is written with an @ instead of its zero byte.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok()?,
        _ => SocketAddr::from_pathname(path).ok()?,
    };
    socket.connect_addr(&address).ok()?;
    Some(socket)
}
