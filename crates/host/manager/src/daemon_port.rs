//! The port of a guest's daemon. It is opened if it belongs to the right user, and reopened after a
//! loss.

use agent::{AgentLink, DaemonEvent, Port};
use hypervisor::PortAccess;
use reactor::PollFlags;
use std::path::PathBuf;

/// Interval between attempts to open a port.
const RETRY_MS: u64 = 5_000;

#[derive(Debug)]
pub struct DaemonPort {
    path: Option<PathBuf>,
    access: PortAccess,
    retry_ms: u64,
    /// Connection to the daemon.
    pub link: AgentLink,
}

impl DaemonPort {
    /// Returns a port that is not open yet.
    pub fn new(path: Option<PathBuf>, access: PortAccess, link: AgentLink) -> DaemonPort {
        DaemonPort { path, access, retry_ms: 0, link }
    }

    /// Sets a new path of the port, or removes the path.
    pub fn moved(&mut self, path: Option<PathBuf>) {
        self.link.close();
        (self.path, self.retry_ms) = (path, 0);
    }

    /// Tries to open a closed port, and renews the budget of an open port.
    pub fn tick(&mut self, now_ms: u64) {
        // The manager requests no files, so no response can be late.
        self.link.tick(now_ms);
        let Some(path) = self.path.as_ref().filter(|_| now_ms >= self.retry_ms) else { return };
        if self.link.is_open() {
            return;
        }
        self.retry_ms = now_ms + RETRY_MS;
        let port = self.access.connect(path).and_then(|stream| Port::new(stream, now_ms));
        if let Ok(port) = port {
            self.link.open(port);
            self.link.welcome();
        }
    }

    /// Handles the daemon's messages.
    pub fn turn(&mut self, flags: PollFlags, now_ms: u64) -> Vec<DaemonEvent> {
        let events = self.link.turn(flags, now_ms);
        if self.link.is_lost() {
            self.retry_ms = now_ms + RETRY_MS;
        }
        events
    }
}
