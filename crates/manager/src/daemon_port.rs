//! The port of a guest's daemon: opened where its owner is the right one, and again after a loss.

use agent::{AgentLink, DaemonEvent, Port};
use hypervisor::Found;
use reactor::PollFlags;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// How often a port that could not be opened is tried again.
const RETRY_MS: u64 = 5_000;

/// Which user the port's socket must belong to. The socket's path comes from QEMU's monitor, so
/// another user could point a root manager at any socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortOwner {
    /// The user who names it may do everything anyway.
    Trusted,
    /// This user, who runs the guest's process.
    User(u32),
    /// That user is not known: the port is not opened.
    #[default]
    Unknown,
}

impl PortOwner {
    /// That of a guest that was found at this source.
    pub fn of(found: &Found) -> PortOwner {
        let is_monitor = found.source.starts_with('/');
        let process = found.process.map(|process| format!("/proc/{}", process.pid));
        match process.and_then(|dir| std::fs::metadata(dir).ok()).map(|process| process.uid()) {
            _ if !is_monitor => PortOwner::Trusted,
            Some(0) => PortOwner::Trusted,
            Some(uid) => PortOwner::User(uid),
            None => PortOwner::Unknown,
        }
    }

    fn owns(self, port: &Port) -> bool {
        match self {
            PortOwner::Trusted => true,
            PortOwner::User(uid) => port.peer_uid().is_ok_and(|peer| peer == uid),
            PortOwner::Unknown => false,
        }
    }
}

/// A daemon, and where its port is.
#[derive(Debug)]
pub struct DaemonPort {
    path: Option<PathBuf>,
    owner: PortOwner,
    retry_ms: u64,
    /// The daemon.
    pub link: AgentLink,
}

impl DaemonPort {
    /// A port that is not open yet.
    pub fn new(path: Option<PathBuf>, owner: PortOwner, link: AgentLink) -> DaemonPort {
        DaemonPort { path, owner, retry_ms: 0, link }
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
        let port = Port::connect(path, now_ms).ok();
        if let Some(port) = port.filter(|port| self.owner.owns(port)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_port_of_another_user_is_left_alone() {
        let dir = std::env::temp_dir().join(format!("pinhead-owner-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("port");
        let _listener = UnixListener::bind(&path).unwrap();
        let ours = std::fs::metadata("/proc/self").unwrap().uid();
        let opens = |owner| {
            let mut daemon = DaemonPort::new(Some(path.clone()), owner, AgentLink::default());
            daemon.tick(10_000);
            daemon.link.is_open()
        };
        assert!(opens(PortOwner::Trusted) && opens(PortOwner::User(ours)));
        assert!(!opens(PortOwner::User(ours + 1)) && !opens(PortOwner::Unknown));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
