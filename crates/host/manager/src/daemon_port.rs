//! The port of a guest's daemon. It is opened if it belongs to the right user, and reopened after a
//! loss.

use crate::control::{Answer, Captured, Failure, Return};
use crate::effect::Effect;
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
    /// Clients that wait for files of the guest, with the numbers of the requests to the daemon.
    captures: Vec<(u32, Return)>,
    /// True if the daemon's last status was not taken yet.
    pub(crate) has_status: bool,
    /// Connection to the daemon.
    pub link: AgentLink,
}

impl DaemonPort {
    /// Returns a port that is not open yet.
    pub fn new(path: Option<PathBuf>, access: PortAccess, link: AgentLink) -> DaemonPort {
        DaemonPort { path, access, retry_ms: 0, captures: Vec::new(), has_status: false, link }
    }

    /// Sets a new path of the port, or removes the path.
    pub fn moved(&mut self, path: Option<PathBuf>) {
        self.link.close();
        (self.path, self.retry_ms) = (path, 0);
    }

    /// Tries to open a closed port, and renews the budget of an open port. Returns an event for
    /// each request for files that was not answered in time.
    pub fn tick(&mut self, now_ms: u64) -> Vec<DaemonEvent> {
        let late = self.link.tick(now_ms);
        let path = self.path.as_ref().filter(|_| now_ms >= self.retry_ms);
        let Some(path) = path.filter(|_| !self.link.is_open()) else { return late };
        self.retry_ms = now_ms + RETRY_MS;
        let port = self.access.connect(path).and_then(|stream| Port::new(stream, now_ms));
        if let Ok(port) = port {
            self.link.open(port);
            self.link.welcome();
        }
        late
    }

    /// Requests the files that the guest's rules read, for a client.
    pub(crate) fn capture(&mut self, name: &str, to: Return, now_ms: u64) -> Result<(), Failure> {
        if self.link.agent().hello().is_none() {
            return Err(Failure::no_daemon(name));
        }
        let number = self.link.ask_files(now_ms);
        let number = number
            .ok_or_else(|| Failure::new("Too many requests for this guest's files are waiting"))?;
        self.captures.push((number, to));
        Ok(())
    }

    /// Returns the response to the client that waits for these files.
    pub(crate) fn captured(&mut self, captured: &agent::Captured) -> Option<Effect> {
        let place = self.captures.iter().position(|(number, _)| *number == captured.number)?;
        let (_, to) = self.captures.swap_remove(place);
        let files = Captured::new(captured, self.link.agent().last_status());
        Some(to.answer(Ok(Answer::Capture(files))))
    }

    /// Returns the responses to all waiting clients of a guest that is gone.
    pub(crate) fn gone(&mut self) -> impl Iterator<Item = Effect> {
        let clients = std::mem::take(&mut self.captures);
        clients.into_iter().map(|(_, to)| to.answer(Err(Failure::new("The guest is gone"))))
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
