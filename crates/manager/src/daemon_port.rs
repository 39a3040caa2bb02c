//! The port of a guest's daemon: opened where its owner is the right one, and again after a loss.

use agent::{AgentLink, DaemonEvent, Port};
use hypervisor::PortAccess;
use reactor::PollFlags;
use std::path::PathBuf;

/// How often a port that could not be opened is tried again.
const RETRY_MS: u64 = 5_000;

/// A daemon, and where its port is.
#[derive(Debug)]
pub struct DaemonPort {
    path: Option<PathBuf>,
    access: PortAccess,
    retry_ms: u64,
    /// The daemon.
    pub link: AgentLink,
}

impl DaemonPort {
    /// A port that is not open yet.
    pub fn new(path: Option<PathBuf>, access: PortAccess, link: AgentLink) -> DaemonPort {
        DaemonPort { path, access, retry_ms: 0, link }
    }

    /// The port is elsewhere now, or gone.
    pub fn moved(&mut self, path: Option<PathBuf>) {
        self.link.close();
        (self.path, self.retry_ms) = (path, 0);
    }

    /// Tries to open a port that is not, and gives an open one its budget.
    pub fn tick(&mut self, now_ms: u64) {
        // Files are not asked for, so that nothing can be late.
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

    /// Takes what the daemon has sent.
    pub fn turn(&mut self, flags: PollFlags, now_ms: u64) -> Vec<DaemonEvent> {
        let events = self.link.turn(flags, now_ms);
        if self.link.is_lost() {
            self.retry_ms = now_ms + RETRY_MS;
        }
        events
    }
}
