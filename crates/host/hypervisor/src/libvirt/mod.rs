//! Guests of libvirt, over the socket of its daemon.
//!
//! ```text
//!   socket ─► Link: bytes, calls and askers ─► Libvirt ─► Event
//!                                                │ ▲
//!                     Search: /proc ─► Guests: Guest, Description, StatsQuestion
//! ```
//!
//! A connection authenticates, opens the hypervisor, registers for events and lists the domains.
//! After that events report changes, and a list every half minute finds missed changes. Each domain
//! is described by three calls and looked up in /proc, and only then reported as found.
//!
//! When the connection is lost, the guests still exist. They count as not responding until a new
//! connection has listed them again. A domain is recognized by its UUID, its number and its
//! process.

mod connection;
mod describe;
mod guest;
mod guests;
mod link;
mod numbers;
mod replies;
mod search;
mod session;
#[cfg(test)]
mod tests;
mod trouble;

use std::path::{Path, PathBuf};

use base::Bytes;
use reactor::PollSet;

use crate::{Event, Hypervisor, Id, IdSource, Trust};
use connection::Connection;
use guests::Guests;

/// URI of the system's guests.
pub const SYSTEM_URI: &str = "qemu:///system";

/// Parts of libvirt's description of a domain, for programs that only watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainParts {
    /// Current maximum memory, including the memory of virtio-mem devices.
    pub memory: Bytes,
    /// True if virtio-mem devices may change the memory at any time.
    pub is_virtio_mem: bool,
    /// Socket of the daemon's port.
    pub port: Option<PathBuf>,
}

/// Parses libvirt's description of a domain.
pub fn describe_domain(xml: &str) -> Result<DomainParts, String> {
    let found = describe::Description::parse(xml)?;
    let is_virtio_mem = found.has_virtio_mem();
    Ok(DomainParts { memory: found.memory, is_virtio_mem, port: found.port })
}

/// URI of a user's own guests.
pub const SESSION_URI: &str = "qemu:///session";

/// Sockets of libvirt's QEMU daemon and of its common daemon, as names in the directory of sockets.
/// If both exist, the QEMU daemon has the guests.
const SOCKETS: [&str; 2] = ["virtqemud-sock", "libvirt-sock"];

/// One libvirt connection, identified by its URI.
#[derive(Debug, Default)]
pub struct Libvirt {
    uri: String,
    /// Candidate paths of the socket. The first existing path is used.
    sockets: Vec<PathBuf>,
    ids: IdSource,
    /// Users with trusted sockets.
    trust: Trust,
    connection: Connection,
    guests: Guests,
    /// Events for the next turn.
    out: Vec<Event>,
    /// The last reported problem of the connection, which is not reported again.
    trouble: Option<String>,
}

impl Libvirt {
    /// Creates a source for the system's guests, `qemu:///system`. The first turn connects.
    pub fn system(ids: IdSource) -> Libvirt {
        Libvirt::below(Path::new("/run/libvirt"), SYSTEM_URI, ids)
    }

    /// Creates a source for a user's own guests, `qemu:///session`, by the user's runtime directory
    /// (`XDG_RUNTIME_DIR`).
    pub fn session(runtime_dir: &Path, ids: IdSource) -> Libvirt {
        Libvirt::below(&runtime_dir.join("libvirt"), SESSION_URI, ids)
    }

    /// Creates a source for a daemon with its own socket path.
    pub fn at(socket: &Path, uri: &str, ids: IdSource) -> Libvirt {
        Libvirt::new(vec![socket.to_owned()], uri, ids)
    }

    /// Creates a source for a URI, at the given socket or at libvirt's default socket. `None` means
    /// that the URI needs a runtime directory that is not given.
    pub fn of_uri(
        uri: &str,
        socket: Option<&Path>,
        runtime_dir: Option<&Path>,
        ids: IdSource,
    ) -> Option<Libvirt> {
        match (socket, uri) {
            (Some(socket), _) => Some(Libvirt::at(socket, uri, ids)),
            (None, SYSTEM_URI) => Some(Libvirt::system(ids)),
            (None, _) => runtime_dir.map(|dir| Libvirt::session(dir, ids)),
        }
    }

    /// Trusts the sockets of these users as well.
    #[must_use]
    pub fn trusting(self, trust: Trust) -> Libvirt {
        Libvirt { trust, ..self }
    }

    fn below(dir: &Path, uri: &str, ids: IdSource) -> Libvirt {
        Libvirt::new(SOCKETS.map(|name| dir.join(name)).into(), uri, ids)
    }

    fn new(sockets: Vec<PathBuf>, uri: &str, ids: IdSource) -> Libvirt {
        Libvirt { uri: uri.to_owned(), sockets, ids, ..Libvirt::default() }
    }

    fn gone(&mut self, id: Id, why: &str) {
        if let Some(guest) = self.guests.remove(id)
            && guest.is_reported
        {
            self.out.push(Event::Gone(id, why.to_owned()));
        }
    }
}

impl Hypervisor for Libvirt {
    fn name(&self) -> String {
        format!("libvirt {}", self.uri)
    }

    fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        if let Some(up) = &self.connection.up {
            let (fd, flags) = up.link.fd();
            set.add(0, fd, flags);
        }
    }

    fn next_ms(&self) -> u64 {
        if !self.out.is_empty() {
            return 0;
        }
        match &self.connection.up {
            None => self.connection.again_ms,
            Some(up) => {
                let all = [up.link.next_ms(), up.list_ms, self.guests.next_ms()];
                all.into_iter().flatten().min().unwrap_or(u64::MAX)
            }
        }
    }

    fn turn(&mut self, ready: Option<&[reactor::Event]>, now_ms: u64, events: &mut Vec<Event>) {
        self.connect(now_ms);
        if ready.is_none_or(|ready| !ready.is_empty()) {
            self.receive(now_ms);
        }
        self.look_at_late(now_ms);
        self.look_at_due(now_ms);
        self.ask(now_ms);
        events.append(&mut self.out);
    }

    fn set_target(&mut self, guest: Id, target: Bytes, now_ms: u64) {
        let Some(it) = self.guests.get_mut(guest) else { return };
        let has_balloon = it.description.as_ref().is_some_and(|it| it.can.balloon);
        let refusal = match (it.reach.answers, has_balloon) {
            (false, _) => trouble::SILENT,
            (true, false) => "it has no balloon",
            (true, true) => {
                it.wants.target = Some(target);
                self.guests.queue(guest);
                self.ask(now_ms);
                return;
            }
        };
        self.out.push(Event::Refused(guest, refusal.to_owned()));
    }

    fn set_running(&mut self, guest: Id, runs: bool, now_ms: u64) {
        let Some(it) = self.guests.get_mut(guest) else { return };
        if !it.reach.answers {
            return self.out.push(Event::Stays(guest, trouble::SILENT.to_owned()));
        }
        it.wants.running = Some(runs);
        self.guests.queue(guest);
        self.ask(now_ms);
    }

    fn ask_stats(&mut self, guest: Id, now_ms: u64) {
        let Some(it) = self.guests.get_mut(guest) else { return };
        if !it.can_report_stats() {
            return;
        }
        let fresh = it.question.begin(now_ms);
        self.out.extend(fresh.map(|stats| Event::Stats(guest, stats)));
        self.guests.queue(guest);
        self.ask(now_ms);
    }

    fn ask_actual(&mut self, guest: Id, now_ms: u64) {
        let Some(it) = self.guests.get_mut(guest) else { return };
        it.wants.info = true;
        it.describe_in_time(now_ms);
        self.guests.queue(guest);
        self.ask(now_ms);
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.as_ref().or_else(|| self.guests.first_ignored()).cloned()
    }
}
