//! A socket that may have a QEMU behind it, from the first connection to the last.
//!
//! ```text
//!   Idle ─► greeted? ─► probe under way ─► a guest
//!     ▲         │               │              │ its end
//!     └── later, and later ◄────┴──────────────┘
//! ```

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use qmp::Value;
use rustix::event::PollFlags;

use super::glob::Socket;
use super::guest::QmpGuest;
use super::link::{CLOSED, Link, Received};
use super::probe::{Listener, Probe};
use super::trouble::{Trouble, Troubles};
use crate::{Event, IdSource, Owner, ProcessId, Trust};

/// Time for a QEMU's greeting. QEMU serves one client at a time and keeps others waiting without a
/// greeting. A missing greeting after this time means that another client uses the monitor.
const GREETING_MS: u64 = 5_000;
/// Time for a response during the probe. This time doubles with each attempt, so that a QEMU on a
/// busy host is found in the end.
const ANSWER_MS: u64 = 5_000;
const ANSWER_MAX_MS: u64 = 30_000;
/// First and longest wait before the next attempt. The wait doubles with each failure.
const RETRY_MS: u64 = 1_000;
const RETRY_MAX_MS: u64 = 30_000;
/// Wait before the second check of the listener. The kernel reports the process that called listen
/// last. If a launcher passes a listening socket to QEMU, the launcher is reported until QEMU
/// itself calls listen, right at its start. After this wait, the second check finds one of three
/// processes: QEMU, a QEMU that lies about its threads, or a program in front of QEMU.
const SECOND_LOOK_MS: u64 = 200;
/// Age from which a guest counts as stable.
const STEADY_MS: u64 = 10_000;
/// Wait before a connection over its budget of bytes is read again.
const OVER_BUDGET_MS: u64 = 250;
/// Wait before a user over its allowance is served again.
const SPENT_MS: u64 = 1_000;

#[derive(Debug)]
pub(super) struct Common {
    pub(super) root: PathBuf,
    pub(super) ids: IdSource,
    /// Users with managed guests.
    pub(super) trust: Trust,
    /// Processes of the present guests, so that a QEMU with two monitors is one guest.
    pub(super) known: BTreeSet<ProcessId>,
    /// Reported problems, and the allowances of users.
    pub(super) troubles: Troubles,
}

impl Common {
    pub(super) fn new(root: PathBuf, trust: Trust, ids: IdSource) -> Common {
        let (known, troubles) = (BTreeSet::new(), Troubles::default());
        Common { root, ids, trust, known, troubles }
    }
}

#[derive(Debug)]
enum Stage {
    Greeting,
    Probing {
        probe: Box<Probe>,
        /// True if an event of the guest arrived during the probe.
        is_restless: bool,
    },
    Up(Box<QmpGuest>),
}

#[derive(Debug)]
struct Active {
    link: Link,
    listener: Listener,
    /// Time of the connection. For a guest, the time at which it was found.
    since_ms: u64,
    is_second_look: bool,
    /// Time for a response.
    answer_ms: u64,
    stage: Stage,
}

#[derive(Debug)]
pub(super) struct Place {
    /// Key of the connection in a poll set.
    pub(super) key: u64,
    path: PathBuf,
    inode: u64,
    owner: Owner,
    active: Option<Active>,
    /// True if no process listened at the last attempt.
    is_dead: bool,
    failures: u32,
    next_try_ms: u64,
    /// True if the last connection was to a process other than the guest's.
    is_second_look: bool,
}

/// Reason for giving up a connection.
enum End {
    Failed(String),
    Silent,
    /// The guest is known through another socket.
    Twice,
    /// The kernel reports a process at the other end that has none of the guest's threads.
    Stranger,
    /// The owner has no allowance left for new guests.
    TooMany,
}

impl Place {
    pub(super) fn new(key: u64, socket: Socket, now_ms: u64) -> Place {
        let Socket { path, inode, owner } = socket;
        Place {
            key,
            path,
            inode,
            owner,
            active: None,
            is_dead: false,
            failures: 0,
            next_try_ms: now_ms,
            is_second_look: false,
        }
    }

    pub(super) fn link(&self) -> Option<&Link> {
        self.active.as_ref().map(|active| &active.link)
    }

    pub(super) fn guest(&mut self) -> Option<(&mut QmpGuest, &mut Link)> {
        match &mut self.active {
            Some(Active { link, stage: Stage::Up(guest), .. }) => Some((guest, link)),
            _ => None,
        }
    }

    /// Returns the directory of a socket without a listener.
    pub(super) fn dead_in(&self) -> Option<&Path> {
        self.path.parent().filter(|_| self.is_dead)
    }

    /// Returns the directory of a monitor without a guest so far, and its owner. Some process
    /// listens there.
    pub(super) fn unclaimed_in(&self) -> Option<(&Path, Owner)> {
        let is_unclaimed = match &self.active {
            Some(active) => !matches!(active.stage, Stage::Up(_)),
            None => self.failures > 0 && !self.is_dead,
        };
        self.path.parent().filter(|_| is_unclaimed).map(|dir| (dir, self.owner))
    }

    /// Returns the rank for the choice of sockets, the best first: connected, not tried yet,
    /// failed.
    pub(super) fn rank(&self) -> u8 {
        match (&self.active, self.failures) {
            (Some(_), _) => 0,
            (None, 0) => 1,
            (None, _) => 2,
        }
    }

    /// Notes that the socket exists. Another inode or owner means another QEMU, so the next attempt
    /// is due now.
    pub(super) fn seen(&mut self, socket: &Socket, now_ms: u64) {
        if (self.inode, self.owner) != (socket.inode, socket.owner) {
            (self.inode, self.owner) = (socket.inode, socket.owner);
            (self.failures, self.is_dead) = (0, false);
            self.next_try_ms = self.next_try_ms.min(now_ms);
        }
    }

    pub(super) fn next_ms(&self) -> u64 {
        let Some(Active { link, since_ms, answer_ms, stage, .. }) = &self.active else {
            return self.next_try_ms;
        };
        let timer = match stage {
            Stage::Greeting => since_ms + GREETING_MS,
            Stage::Probing { .. } => link.waits_since_ms().unwrap_or(*since_ms) + answer_ms,
            Stage::Up(guest) => guest.next_ms(link),
        };
        if link.is_over_budget() { timer.min(link.refilled_ms + OVER_BUDGET_MS) } else { timer }
    }

    /// Connects if the next attempt is due. Returns true if a system call was made, because the
    /// caller limits system calls.
    pub(super) fn connect(
        &mut self,
        now_ms: u64,
        common: &mut Common,
        events: &mut Vec<Event>,
    ) -> bool {
        if self.active.is_some() || now_ms < self.next_try_ms {
            return false;
        }
        if !common.troubles.may_connect(self.owner, now_ms) {
            self.next_try_ms = now_ms + SPENT_MS;
            return false;
        }
        let owner = self.owner;
        match Link::connect(&self.path, owner, now_ms) {
            Ok(link) => {
                self.is_dead = false;
                common.troubles.over(&rights_of(&self.path));
                let (user, process) = link.peer(owner, &common.root);
                let listener = Listener { owner, user, process };
                let is_second_look = std::mem::take(&mut self.is_second_look);
                let (since_ms, stage) = (now_ms, Stage::Greeting);
                let answer_ms = ANSWER_MS << self.failures.min(ANSWER_MAX_MS.ilog2());
                let answer_ms = answer_ms.min(ANSWER_MAX_MS);
                self.active =
                    Some(Active { link, listener, since_ms, is_second_look, answer_ms, stage });
            }
            Err(error) => {
                self.is_dead = error.kind() == io::ErrorKind::ConnectionRefused;
                // An ending guest removes its socket, and the next scan notices that.
                if error.kind() != io::ErrorKind::NotFound {
                    let (trouble, words) = refused(&self.path, owner, &error);
                    common.troubles.report(owner, trouble, words, now_ms, events);
                }
                self.retry_later(now_ms);
            }
        }
        true
    }

    fn retry_later(&mut self, now_ms: u64) {
        let wait_ms = RETRY_MS << self.failures.min(RETRY_MAX_MS.ilog2());
        self.next_try_ms = now_ms + wait_ms.min(RETRY_MAX_MS);
        self.failures = self.failures.saturating_add(1);
    }

    pub(super) fn turn(
        &mut self,
        ready: PollFlags,
        now_ms: u64,
        common: &mut Common,
        events: &mut Vec<Event>,
    ) {
        let Some(active) = &mut self.active else { return };
        let Err(end) = active.turn(ready, now_ms, &self.path, common, events) else {
            return;
        };
        let Some(active) = self.active.take() else { return };
        match (active.stage, end) {
            (Stage::Up(guest), end) => {
                let reason = match end {
                    End::Failed(words) => words,
                    End::Silent | End::Twice | End::Stranger | End::TooMany => {
                        "its monitor is silent".into()
                    }
                };
                if let Some(process) = guest.process {
                    common.known.remove(&process);
                }
                events.push(Event::Gone(guest.id, guest.end(&reason)));
                // A guest that disappears soon after its discovery is not retried each second.
                if now_ms >= active.since_ms + STEADY_MS {
                    self.failures = 0;
                }
                self.retry_later(now_ms);
            }
            (_, End::Twice) => {
                // The next attempt may be late. But an attempt is needed, because the guest's other
                // socket may vanish.
                self.next_try_ms = now_ms + RETRY_MAX_MS;
            }
            (_, End::Stranger) => {
                self.is_second_look = true;
                self.next_try_ms = now_ms + SECOND_LOOK_MS;
            }
            (_, End::TooMany) => self.next_try_ms = now_ms + RETRY_MAX_MS,
            // The guest was parked after its discovery, and its socket is hidden until it runs.
            (_, End::Silent) if !self.path.exists() => self.retry_later(now_ms),
            (stage, end) => {
                let words = words(&self.path, &stage, end);
                let trouble = Trouble::Socket(self.path.clone());
                common.troubles.report(self.owner, trouble, words, now_ms, events);
                self.retry_later(now_ms);
            }
        }
    }
}

impl Active {
    fn turn(
        &mut self,
        ready: PollFlags,
        now_ms: u64,
        path: &Path,
        common: &mut Common,
        events: &mut Vec<Event>,
    ) -> Result<(), End> {
        self.link.refill(now_ms);
        let closed = ready.intersects(PollFlags::HUP | PollFlags::ERR);
        let mut messages = Vec::new();
        let outcome = match ready.is_empty() {
            true => Ok(()),
            false => self.link.receive(&mut messages),
        };
        for message in messages {
            self.take(message, now_ms, events);
        }
        if let Stage::Up(guest) = &mut self.stage {
            guest.tick(&mut self.link, now_ms, events);
            guest.report(&common.root, events);
        }
        outcome.map_err(End::Failed)?;
        if closed && self.link.is_over_budget() {
            // The remaining input is never read, so poll would report the hang-up forever.
            return Err(End::Failed(CLOSED.into()));
        }
        self.promote(now_ms, path, common, events)?;
        self.link.send().map_err(End::Failed)
    }

    fn take(&mut self, message: Received, now_ms: u64, events: &mut Vec<Event>) {
        let link = &mut self.link;
        match (&mut self.stage, message) {
            (Stage::Greeting, Received::Ready) => {
                let probe = Box::new(Probe::begin(link, now_ms));
                self.stage = Stage::Probing { probe, is_restless: false };
            }
            (Stage::Probing { probe, .. }, Received::Answer(purpose, outcome)) => {
                probe.answer(purpose, outcome, link, now_ms);
            }
            (Stage::Probing { probe, is_restless }, Received::Event { name, data }) => {
                *is_restless = true;
                if let ("BALLOON_CHANGE", Some(actual)) =
                    (name.as_str(), data.get("actual").and_then(Value::as_u64))
                {
                    probe.balloon_changed(actual);
                }
            }
            (Stage::Up(guest), Received::Answer(purpose, outcome)) => {
                guest.answer(purpose, outcome, link, now_ms, events);
            }
            (Stage::Up(guest), Received::Event { name, data }) => {
                guest.event(&name, &data, link, now_ms);
            }
            _ => {}
        }
    }

    /// Moves to the next stage when the current stage is complete, or fails on a timeout.
    fn promote(
        &mut self,
        now_ms: u64,
        path: &Path,
        common: &mut Common,
        events: &mut Vec<Event>,
    ) -> Result<(), End> {
        let late_ms = match &self.stage {
            Stage::Up(_) => return Ok(()),
            Stage::Greeting => Some(self.since_ms + GREETING_MS),
            Stage::Probing { .. } => self.link.waits_since_ms().map(|ms| ms + self.answer_ms),
        };
        if let Some(late_ms) = late_ms {
            return if now_ms >= late_ms { Err(End::Silent) } else { Ok(()) };
        }
        let Stage::Probing { probe, is_restless } = &mut self.stage else { return Ok(()) };
        let (mut probe, is_restless) = (std::mem::take(&mut **probe), *is_restless);
        let Listener { owner, process, .. } = self.listener;
        let stranger = process.filter(|process| !probe.runs_in(*process, &common.root));
        if stranger.is_some() && !self.is_second_look {
            return Err(End::Stranger);
        }
        // A QEMU that lies about its threads is accepted if its process is large enough.
        if let Some(ProcessId { pid, .. }) =
            stranger.filter(|process| !probe.fits(*process, &common.root))
        {
            return Err(End::Failed(format!(
                "process {pid} listens there, but does not run the guest: connect the monitor \
                 directly to QEMU, without a program in between"
            )));
        }
        if process.is_none() && !owner.is_trusted() {
            return Err(End::Failed(
                "it belongs to another user, and its process is not visible".into(),
            ));
        }
        let Some(probed) = probe.finish(path, self.listener, &common.root) else {
            return Err(End::Failed("it does not report the size of its memory".into()));
        };
        if process.is_some_and(|process| common.known.contains(&process)) {
            return Err(End::Twice);
        }
        if !common.troubles.may_come(owner, now_ms) {
            return Err(End::TooMany);
        }
        common.known.extend(process);
        let mut guest = Box::new(QmpGuest::new(common.ids.next(), &probed, now_ms));
        if is_restless {
            guest.ask_status(&mut self.link, now_ms);
        }
        common.troubles.over(&Trouble::Socket(path.to_path_buf()));
        events.push(Event::Found(guest.id, Box::new(probed.found)));
        self.since_ms = now_ms;
        self.stage = Stage::Up(guest);
        Ok(())
    }
}

fn words(path: &Path, stage: &Stage, end: End) -> String {
    let path = path.display();
    match (stage, end) {
        (_, End::Failed(words)) => format!("No guest at {path}: {words}"),
        (Stage::Greeting, _) => format!(
            "QEMU at {path} sends no greeting: another client uses the monitor, or QEMU hangs. \
             Give pinhead a second -qmp socket"
        ),
        _ => format!("QEMU at {path} does not identify itself"),
    }
}

fn rights_of(path: &Path) -> Trouble {
    Trouble::Rights(path.parent().unwrap_or(path).to_path_buf())
}

fn refused(path: &Path, owner: Owner, error: &io::Error) -> (Trouble, String) {
    let directory = path.parent().unwrap_or(path);
    let shown = path.display();
    let words = match error.kind() {
        io::ErrorKind::PermissionDenied if owner.is_trusted() => {
            return (rights_of(path), no_rights(directory));
        }
        io::ErrorKind::PermissionDenied => {
            format!(
                "{shown} belongs to user {}, but another user created it or listens on it",
                owner.0
            )
        }
        io::ErrorKind::ConnectionRefused => {
            let (dead, name) =
                (directory.display(), path.file_name().unwrap_or_default().display());
            let words = format!(
                "Sockets in {dead}, such as {name}, have no listener: the QEMUs that created them \
                 have ended"
            );
            return (Trouble::Dead(directory.to_path_buf()), words);
        }
        io::ErrorKind::WouldBlock => {
            format!(
                "Too many clients wait for the QEMU at {shown}: another client uses its monitor"
            )
        }
        _ => format!("Cannot connect to {shown}: {error}"),
    };
    (Trouble::Socket(path.to_path_buf()), words)
}

/// Formats one sentence for all sockets of a directory.
fn no_rights(directory: &Path) -> String {
    let directory = directory.display();
    format!("No permission to open the QMP sockets in {directory}: run as root, or as their owner")
}
