//! The daemon inside of a guest, as far as its host knows it: the port, and what came through.
//!
//! Whatever comes from there is a claim. Sizes are held within what the guest can have, texts
//! are bounded by the wire, and a flood is read within a budget.

use crate::control::Asks;
use crate::gather::{Gather, Scan};
use base::PAGE_BYTES;
use counters::Bytes;
use hypervisor::{Found, Port};
use policy::arbiter::Memory;
use rustix::event::PollFlags;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use wire::{Grant, Hello, PoolKind, Pressure, Sample, Status, ToGuest, ToHost, Welcome};

/// How often a port that could not be opened is tried again.
const RETRY_MS: u64 = 5_000;
/// A daemon that has left so many questions unanswered is not counted upon.
const UNANSWERED_MAX: u32 = 3;
/// Messages of one guest in one turn; the rest waits for the next.
const MESSAGES_A_TURN: usize = 64;

/// Something that the daemon said which the manager has to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It is there, in this boot of its guest.
    Here([u8; 16]),
    /// Its memory, as far as it told.
    Memory(Box<wire::Memory>),
    /// Its rules want a pool of this size.
    Request {
        /// Comes back with the grant.
        sequence: u32,
        /// The size that the guest keeps.
        keeps: Bytes,
    },
    /// Who runs in it.
    Scan(Box<Scan>),
    /// Tasks wait for memory.
    Need,
    /// It ends and has given back what it took.
    Bye,
}

/// Whose a guest's port must be. A monitor names the port's socket, and whoever has a monitor of
/// his own could name any socket that a manager who is root may open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// It is named by somebody who may do everything anyway.
    Trusted,
    /// It is listened on by the user whose process the guest is.
    User(u32),
    /// That user is not known: the port is left alone.
    #[default]
    Unknown,
}

impl Owner {
    /// Who owns the port of a guest that was found at this source.
    pub fn of(found: &Found) -> Owner {
        let is_monitor = found.source.starts_with('/');
        let process = found.process.map(|process| format!("/proc/{}", process.pid));
        match process.and_then(|dir| std::fs::metadata(dir).ok()).map(|process| process.uid()) {
            _ if !is_monitor => Owner::Trusted,
            Some(0) => Owner::Trusted,
            Some(uid) => Owner::User(uid),
            None => Owner::Unknown,
        }
    }

    fn owns(self, port: &Port) -> bool {
        match self {
            Owner::Trusted => true,
            Owner::User(uid) => port.peer_uid().is_ok_and(|peer| peer == uid),
            Owner::Unknown => false,
        }
    }
}

/// Whether a manager answers what daemons ask for: one that only looks on does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grants {
    /// It does.
    Yes,
    /// Daemons do as they would without it.
    No,
}

/// The port of a guest, and the daemon behind it.
#[derive(Debug, Default)]
pub struct Inside {
    path: Option<PathBuf>,
    port: Option<Port>,
    retry_ms: u64,
    hello: Option<Hello>,
    status: Option<Status>,
    sequence: u32,
    asked_ms: u64,
    unanswered: u32,
    looked_ms: u64,
    grants: bool,
    gather: Gather,
    system: Option<wire::System>,
    asks: Asks,
    owner: Owner,
}

impl Inside {
    /// Nothing is known but where the port is, and whether requests are to be granted there.
    pub fn new(path: Option<PathBuf>, owner: Owner, grants: Grants) -> Inside {
        Inside { path, owner, grants: grants == Grants::Yes, ..Inside::default() }
    }

    /// What to wait for, while the port is open. One without a budget is not waited for at all:
    /// if its other end is closed, that would be told again and again until it may be read.
    pub fn fd(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let flags = |port: &Port| (!port.flags().is_empty()).then(|| port.flags());
        self.port.as_ref().and_then(|port| Some((port.as_fd(), flags(port)?)))
    }

    /// Whether a daemon is there that answers.
    pub fn is_up(&self) -> bool {
        self.hello.is_some() && self.unanswered < UNANSWERED_MAX
    }

    /// What the daemon said of itself.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref()
    }

    /// What it said last of how things are.
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// How its guest is as a whole, by the last answer to who runs in it.
    pub fn system(&self) -> Option<&wire::System> {
        self.system.as_ref().filter(|_| self.hello.is_some())
    }

    /// Bytes that were no message, and turns in which it said too much.
    pub fn misbehaviour(&self) -> (wire::Dropped, u64) {
        self.port.as_ref().map_or_else(Default::default, |port| (port.dropped(), port.floods))
    }

    /// Tries to open a port that is not, and gives an open one its budget.
    pub fn tick(&mut self, memory: Bytes, now_ms: u64) {
        if let Some(port) = &mut self.port {
            return port.refill(now_ms);
        }
        let Some(path) = self.path.as_ref().filter(|_| now_ms >= self.retry_ms) else { return };
        self.retry_ms = now_ms + RETRY_MS;
        let port = Port::connect(path, now_ms).ok();
        self.port = port.filter(|port| self.owner.owns(port));
        self.welcome(memory);
    }

    fn welcome(&mut self, memory: Bytes) {
        let memory_pages = memory.0 / PAGE_BYTES;
        let grants = self.grants;
        self.say(&ToGuest::Welcome(Welcome { memory_pages, grants, paces: true }));
    }

    /// Takes what the daemon has said.
    pub fn turn(&mut self, flags: PollFlags, memory: Bytes, now_ms: u64) -> Vec<Said> {
        let mut said = Vec::new();
        let Some(port) = &mut self.port else { return said };
        let sent = port.send();
        let received = match flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            true => port.receive(),
            false => Ok(()),
        };
        for _ in 0..MESSAGES_A_TURN {
            let Some(message) = self.port.as_mut().and_then(Port::next) else { break };
            said.extend(self.hear(message, memory));
        }
        if sent.is_err() || received.is_err() {
            self.close(now_ms);
        }
        said
    }

    fn close(&mut self, now_ms: u64) {
        (self.port, self.hello, self.status, self.system) = (None, None, None, None);
        self.unanswered = 0;
        self.retry_ms = now_ms + RETRY_MS;
    }

    /// The guest has started anew: its daemon will say hello.
    pub fn rebooted(&mut self) {
        (self.hello, self.status, self.system, self.unanswered) = (None, None, None, 0);
    }

    fn hear(&mut self, message: ToHost, memory: Bytes) -> Option<Said> {
        match message {
            ToHost::Hello(hello) => {
                let (boot, reply) = (hello.boot_id, hello.reply);
                self.unanswered = 0;
                self.hello = Some(hello);
                if !reply {
                    self.status = None;
                    self.welcome(memory);
                }
                Some(Said::Here(boot))
            }
            ToHost::Status(status) => {
                self.status = Some(status);
                None
            }
            ToHost::Memory(told) => {
                self.unanswered = 0;
                Some(Said::Memory(Box::new(told)))
            }
            ToHost::PoolRequest(request) => {
                let pool = Bytes(request.pages.saturating_mul(PAGE_BYTES)).min(memory);
                let keeps = memory.less(pool);
                Some(Said::Request { sequence: request.sequence, keeps })
            }
            ToHost::Processes(part) => {
                self.gather.take(part).map(|scan| Said::Scan(Box::new(scan)))
            }
            ToHost::System(system) => {
                self.system = Some(system);
                None
            }
            ToHost::Need(Pressure::Memory) => Some(Said::Need),
            ToHost::Bye => {
                (self.hello, self.status) = (None, None);
                Some(Said::Bye)
            }
            // A guest that waits for a CPU is served by the host's scheduler; files are not asked
            // for, and a clone has its name before it is managed.
            ToHost::Need(Pressure::Cpu) | ToHost::Chunk(_) | ToHost::Identified(_) => None,
        }
    }

    /// Asks who runs in the guest. False if nobody is there to ask.
    pub fn scan(&mut self) -> bool {
        if self.hello.is_none() {
            return false;
        }
        self.asks.scans += 1;
        let scan = self.gather.begin();
        self.say(&ToGuest::Scan(scan));
        true
    }

    /// How often its daemon was asked for something.
    pub fn asks(&self) -> Asks {
        self.asks
    }

    /// When an answer was true at least: it was asked for then. `None` for the answer to a
    /// question that was put again meanwhile, which says nothing new.
    pub fn asked_ms(&self, told: &wire::Memory, now_ms: u64) -> Option<u64> {
        match told.sequence {
            0 => Some(now_ms),
            sequence => (sequence == self.sequence).then_some(self.asked_ms),
        }
    }

    /// Asks how the guest's memory is. False if nobody is there to ask.
    pub fn ask(&mut self, now_ms: u64) -> bool {
        if self.hello.is_none() {
            return false;
        }
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.asked_ms = now_ms;
        self.unanswered = self.unanswered.saturating_add(1);
        self.asks.samples += 1;
        self.say(&ToGuest::Sample(Sample { sequence: self.sequence }));
        self.unanswered <= UNANSWERED_MAX
    }

    /// Tells the guest what its balloon is, and why.
    pub fn grant(&mut self, sequence: u32, memory: Bytes, keeps: Bytes, reason: String) {
        // A guest whose kernel has a pool of its own has nothing of ours.
        if self.hello.as_ref().is_some_and(|hello| hello.pool != PoolKind::Cmm) {
            let pages = memory.less(keeps).0 / PAGE_BYTES;
            self.say(&ToGuest::Grant(Grant { sequence, pages, reason }));
        }
    }

    /// Tells a settled daemon that its virtual CPUs have run, as often as its rules look.
    pub fn look(&mut self, now_ms: u64) {
        let settled = self.status.as_ref().is_some_and(|status| status.settled);
        let update_ms = self.hello.as_ref().map_or(1000, |hello| u64::from(hello.update_ms));
        if settled && now_ms.saturating_sub(self.looked_ms) >= update_ms.max(250) {
            self.looked_ms = now_ms;
            self.asks.looks += 1;
            self.say(&ToGuest::Look);
        }
    }

    fn say(&mut self, message: &ToGuest) {
        if self.port.as_mut().is_some_and(|port| port.say(message).is_err()) {
            (self.port, self.hello, self.status) = (None, None, None);
        }
    }
}

/// What a guest told, held within what it can be.
pub fn memory_of(told: &wire::Memory, actual: Bytes, most: Bytes, at_ms: u64) -> Memory {
    let size = |kib: Option<u64>| kib.map(|kib| Bytes(kib.saturating_mul(1024)).min(most));
    Memory {
        at_ms,
        clock_ms: told.uptime_ms,
        actual,
        free: size(told.free_kib),
        available: size(told.available_kib),
        cached: size(told.cached_kib),
        active_file: size(told.active_file_kib),
        swap_free: told.swap_free_kib.map(|kib| Bytes(kib.saturating_mul(1024))),
        swap_in: told.swap_in_pages,
        swap_out: told.swap_out_pages,
        refaults: match (told.refault_file, told.refault_anon) {
            (None, None) => None,
            (file, anon) => Some(file.unwrap_or(0).saturating_add(anon.unwrap_or(0))),
        },
        stalls: told.stalls,
        major_faults: told.major_faults,
        oom_kills: told.oom_kills,
        psi_some_us: told.psi_some_us,
    }
}

/// What a balloon's statistics say, in the same terms.
pub fn memory_of_stats(stats: &hypervisor::BalloonStats, actual: Bytes, at_ms: u64) -> Memory {
    let pages = |size: Option<Bytes>| size.map(|size| size.0 / PAGE_BYTES);
    Memory {
        at_ms,
        clock_ms: stats.updated_s.saturating_mul(1000),
        actual,
        free: stats.free,
        // A driver from before 4.6 does not say; what is free is surely available.
        available: stats.available.or(stats.free),
        cached: stats.caches,
        swap_in: pages(stats.swap_in),
        swap_out: pages(stats.swap_out),
        major_faults: stats.major_faults,
        ..Memory::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_port_that_has_said_too_much_is_not_waited_for_even_if_it_is_closed() {
        let path = std::env::temp_dir().join(format!("pinhead-inside-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let mut inside = Inside::new(Some(path.clone()), Owner::Trusted, Grants::Yes);
        inside.tick(Bytes::mib(100), 0);
        let (mut guest, _) = listener.accept().unwrap();
        guest.set_nonblocking(true).unwrap();
        for turn in 0.. {
            while guest.write(&[0x9D; 4096]).is_ok() {}
            inside.turn(PollFlags::IN, Bytes::mib(100), 0);
            if inside.fd().is_none() {
                break;
            }
            assert!(turn < 1_000, "its budget has no end");
        }
        drop((guest, listener));
        assert!(inside.fd().is_none());
        for now_ms in (250..60_000).step_by(250) {
            inside.tick(Bytes::mib(100), now_ms);
            inside.turn(PollFlags::IN | PollFlags::HUP, Bytes::mib(100), now_ms);
        }
        assert!(inside.port.is_none(), "its end is seen when it may be read");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_port_of_another_user_is_left_alone() {
        let dir = std::env::temp_dir().join(format!("pinhead-owner-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("port");
        let _listener = UnixListener::bind(&path).unwrap();
        let ours = std::fs::metadata("/proc/self").unwrap().uid();
        let opens = |owner| {
            let mut inside = Inside::new(Some(path.clone()), owner, Grants::Yes);
            inside.tick(Bytes::mib(64), 10_000);
            inside.fd().is_some()
        };
        assert!(opens(Owner::Trusted) && opens(Owner::User(ours)));
        assert!(!opens(Owner::User(ours + 1)) && !opens(Owner::Unknown));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
