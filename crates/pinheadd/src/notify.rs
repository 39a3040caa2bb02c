//! Notifications to systemd, where it is there to read them.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket of the service manager, and how often it wants a sign of life.
#[derive(Debug)]
pub struct Notify {
    socket: Option<UnixDatagram>,
    watchdog_ms: Option<u64>,
}

impl Notify {
    /// What the environment of this process says.
    pub fn from_env() -> Notify {
        let path = std::env::var_os("NOTIFY_SOCKET");
        let interval = std::env::var("WATCHDOG_USEC").ok().and_then(|v| v.parse::<u64>().ok());
        let socket = path.and_then(|path| connect(&path));
        // Half of the time that is allowed, as systemd's own manual asks for.
        let watchdog_ms = interval.filter(|_| socket.is_some()).map(|us| (us / 2000).max(1));
        Notify { socket, watchdog_ms }
    }

    /// Says a line of the protocol.
    pub fn send(&self, line: &str) {
        if let Some(socket) = &self.socket {
            // The manager's loss: it will notice by itself.
            let _ = socket.send(line.as_bytes());
        }
    }

    /// The longest time between two signs of life.
    pub fn watchdog_ms(&self) -> Option<u64> {
        self.watchdog_ms
    }
}

fn connect(path: &OsStr) -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    let address = match path.as_bytes() {
        // An abstract name, written with an @ for its zero byte.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok()?,
        _ => SocketAddr::from_pathname(path).ok()?,
    };
    socket.connect_addr(&address).ok()?;
    Some(socket)
}
