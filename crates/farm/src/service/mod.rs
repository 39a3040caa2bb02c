//! Guests that run, and the socket through which others ask about them.
//!
//! ```text
//!   PID/control ─► question (a line of JSON) ─► ps, logs, down  answered with a line
//!                                            ─► capture       answered when the guest has
//!                                            ─► console       the stream is the guest's terminal
//!                                            ─► exec          the stream is the command's output
//!                                            ─► park, wake    answered when the guest is
//!                                            ─► manage        the stream is a manager's lease
//!   127.0.0.1:PORT ◄─ probes of guests that are up ─► ready ─► the class's command
//! ```
//!
//! It has no thread of its own: the loop that turns the fleet turns it too. No client is waited
//! for, and what is kept for one that does not read is bounded.

mod captures;
mod client;
mod consoles;
mod parking;
mod peer;
mod protocol;
mod ready;
mod replies;
mod shells;
#[cfg(test)]
mod tests;

pub use captures::POOL;
pub use client::{answer, ask, ask_within, exec, ps, run, table};
pub use protocol::{FarmTable, GuestRow, Question, question};
pub use ready::{ReadyState, ServedPort};

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use reactor::{Acceptor, Lines, Lookup, PollSet, Ready, Received, is_own_user, is_passing};
use rustix::event::PollFlags;
use serde_json::json;
use vm::{CONSOLE_BYTES_MAX, Error, SocketFile, listen};

use crate::Password;
use crate::fleet::{Event, Fleet, Member, State};
use captures::Captures;
use consoles::Consoles;
use parking::Parkings;
use ready::Readiness;
use replies::{Replies, line};
use shells::Shells;

/// What the socket is called in the farm's directory.
pub const SOCKET: &str = "control";
/// Who may ask at the same time: each is answered within a turn or two.
const CLIENTS_MAX: usize = 64;
/// So many guests are named to a client that asks for one that is not there.
const NAMES_MAX: usize = 10;
/// A client has this long to send its request.
const QUESTION_MS: u64 = 5_000;

/// The properties of a guest besides how it is started.
#[derive(Clone, Debug)]
pub struct Occupant {
    /// The class that it is of.
    pub class: String,
    /// Its ports on the host.
    pub ports: Vec<ServedPort>,
    /// A line for its shell when it is ready.
    pub command: Option<String>,
    /// Its weight against others.
    pub shares: u32,
    /// The password of the farm's database, if it is to know it.
    pub password: Option<Password>,
}

/// Who owns a descriptor of the service in the fleet's poll set.
mod owner {
    use crate::fleet::owner::OTHERS;

    pub(super) const LISTENER: u64 = OTHERS;
    pub(super) const CALLERS: u64 = OTHERS + 1;
    pub(super) const CONSOLES: u64 = OTHERS + 2;
    pub(super) const SHELLS: u64 = OTHERS + 3;
    pub(super) const PROBES: u64 = OTHERS + 4;
    pub(super) const MANAGER: u64 = OTHERS + 5;
    pub(super) const REPLIES: u64 = OTHERS + 6;
    pub(super) const END: u64 = OTHERS + 7;
}

/// The first owner in the fleet's poll set that is neither the fleet's nor the service's.
pub const OWNERS_END: u64 = owner::END;

/// A client that has connected and not sent its request yet.
#[derive(Debug)]
struct Caller {
    stream: UnixStream,
    lines: Lines,
    since_ms: u64,
}

/// The control socket, and all requests under way.
#[derive(Debug)]
pub struct Service {
    /// The farm's name, if it has one.
    name: Option<String>,
    listener: UnixListener,
    _file: SocketFile,
    occupants: Vec<Occupant>,
    acceptor: Acceptor,
    callers: Vec<Caller>,
    consoles: Consoles,
    shells: Shells,
    captures: Captures,
    parkings: Parkings,
    readiness: Readiness,
    replies: Replies,
    /// The host manager that has the guests' ports and balloons as long as this is open.
    manager: Option<UnixStream>,
    /// The client that asked for the end; it sees it when the connection closes.
    ending: Option<UnixStream>,
}

impl Service {
    /// Listens in a directory that is ours alone. The occupants are the fleet's members in order.
    pub fn open(
        dir: &Path,
        name: Option<String>,
        occupants: Vec<Occupant>,
    ) -> Result<Service, Error> {
        let path = dir.join(SOCKET);
        let (listener, file) = listen(path.clone())?;
        let set = listener.set_nonblocking(true);
        set.map_err(|source| Error::Socket { path, source })?;
        Ok(Service {
            name,
            listener,
            _file: file,
            acceptor: Acceptor::default(),
            callers: Vec::new(),
            consoles: Consoles::default(),
            shells: Shells::new(occupants.len()),
            captures: Captures::default(),
            parkings: Parkings::default(),
            readiness: Readiness::new(occupants.iter().map(|o| o.ports.clone()).collect()),
            occupants,
            replies: Replies::default(),
            manager: None,
            ending: None,
        })
    }

    /// What has to be waited for.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        set.owner(owner::LISTENER).add(0, self.listener.as_fd(), self.acceptor.flags());
        set.owner(owner::CALLERS);
        for (key, caller) in (0..).zip(&self.callers) {
            set.add(key, caller.stream.as_fd(), PollFlags::IN);
        }
        self.consoles.fds(set.owner(owner::CONSOLES));
        self.shells.fds(set.owner(owner::SHELLS));
        self.readiness.fds(set.owner(owner::PROBES));
        self.replies.fds(set.owner(owner::REPLIES));
        if let Some(manager) = &self.manager {
            set.owner(owner::MANAGER).add(0, manager.as_fd(), PollFlags::IN);
        }
    }

    /// Deals with what has come: on the connections, and from the fleet.
    pub fn turn(&mut self, ready: &Ready, events: &[Event], fleet: &mut Fleet) {
        let now = fleet.now_ms();
        // Before anything that adds to them.
        self.replies.turn(ready.of(owner::REPLIES));
        for event in events {
            if let Event::Up(guest) = event {
                // Also of one that was to be parked, or woken, and has begun anew instead.
                self.parkings.runs(*guest, fleet, &mut self.replies);
            }
            match event {
                Event::Up(guest) if self.occupants[*guest].password.is_none() => {
                    self.readiness.is_up(*guest, now);
                }
                // Its services answer when they have what they need.
                Event::Up(guest) => self.set_up(*guest, fleet),
                Event::Reset(guest) => {
                    self.shells.was_reset(*guest);
                    if self.readiness.state(*guest) != ReadyState::Starting {
                        self.set_up(*guest, fleet);
                    }
                }
                Event::Note(_) => {}
                Event::Parked(guest) => {
                    if fleet.members()[*guest].is_away() {
                        // Its QEMU has ended; the next one has another port for commands.
                        self.shells.has_ended(*guest);
                        self.captures.has_ended(*guest);
                    }
                    self.parkings.is_parked(*guest, fleet, &mut self.replies);
                }
                Event::Woken(guest) => {
                    self.parkings.runs(*guest, fleet, &mut self.replies);
                    self.captures.runs(*guest, fleet, &mut self.replies);
                }
                Event::Ended(guest) => {
                    self.parkings.has_ended(*guest, fleet, &mut self.replies);
                    self.readiness.has_ended(*guest);
                    self.shells.has_ended(*guest);
                    self.captures.has_ended(*guest);
                }
                // A client of the QEMU that was ended gets no answer.
                Event::Hung { guest, .. } => {
                    self.shells.has_ended(*guest);
                    self.captures.has_ended(*guest);
                }
                Event::Captured { guest, captured } => {
                    self.captures.captured(*guest, captured, fleet, &mut self.replies);
                }
            }
        }
        // Before the callers, so that the next manager may begin.
        if ready.has(owner::MANAGER) && self.manager.as_ref().is_some_and(has_ended) {
            self.manager = None;
            fleet.take_back();
        }
        self.consoles.turn(ready.of(owner::CONSOLES), fleet);
        for guest in self.shells.turn(ready.of(owner::SHELLS), fleet, &mut self.replies) {
            self.readiness.is_up(guest, now);
        }
        let used = self.shells.busy().chain(self.consoles.attached());
        for guest in used.chain(self.readiness.asked()) {
            fleet.keep_awake(guest);
        }
        for guest in self.readiness.turn(ready.of(owner::PROBES), now) {
            // One that goes on from where it was runs it already.
            let is_new = !fleet.members()[guest].is_resumed();
            if let Some(command) = self.occupants[guest].command.as_ref().filter(|_| is_new) {
                self.shells.run_aside(guest, command, fleet);
            }
        }
        let mut lookup = Lookup::new(ready.of(owner::CALLERS));
        for (key, caller) in (0..).zip(std::mem::take(&mut self.callers)) {
            let is_ready = !lookup.flags(key).is_empty();
            self.read_question(caller, is_ready, fleet, now);
        }
        if ready.has(owner::LISTENER) || self.acceptor.next_ms().is_some() {
            self.accept(now);
        }
    }

    /// Gives a guest what its servers are to know, if there is anything.
    fn set_up(&mut self, guest: usize, fleet: &mut Fleet) {
        if let Some(password) = &self.occupants[guest].password {
            self.shells.set_up(guest, password.line(), fleet);
        }
    }

    /// Hangs up on all clients but a manager, and forgets what they had asked for: something in
    /// one of their requests was not as it should be.
    pub fn drop_clients(&mut self) {
        self.callers.clear();
        self.consoles = Consoles::default();
        self.shells.drop_clients();
        self.captures = Captures::default();
        self.parkings = Parkings::default();
    }

    /// Takes the guests' ports and balloons back, and hangs up on everybody: it is turned no more.
    pub fn drop_manager(&mut self, fleet: &mut Fleet) {
        self.drop_clients();
        // An answer on its way has the manager's connection too.
        self.replies = Replies::default();
        self.manager = None;
        fleet.take_back();
    }

    /// When it wants to be turned again, whatever comes.
    pub fn next_ms(&self) -> u64 {
        self.readiness.next_ms().min(self.acceptor.next_ms().unwrap_or(u64::MAX))
    }

    /// Whether a client has asked for the farm's end.
    pub fn is_to_end(&self) -> bool {
        self.ending.is_some()
    }

    /// How a guest's services are.
    pub fn ready_state(&self, guest: usize) -> ReadyState {
        self.readiness.state(guest)
    }

    fn accept(&mut self, now_ms: u64) {
        let accepted = self.acceptor.turn(now_ms, || Ok(self.listener.accept()?.0));
        for stream in accepted.streams {
            let is_welcome = is_own_user(&stream) && self.callers.len() < CLIENTS_MAX;
            if is_welcome && stream.set_nonblocking(true).is_ok() {
                self.callers.push(Caller { stream, lines: Lines::default(), since_ms: now_ms });
            }
        }
    }

    /// Reads from a caller, and answers when a whole line has come.
    fn read_question(
        &mut self,
        mut caller: Caller,
        is_ready: bool,
        fleet: &mut Fleet,
        now_ms: u64,
    ) {
        if !is_ready {
            if now_ms.saturating_sub(caller.since_ms) < QUESTION_MS {
                self.callers.push(caller);
            }
            return;
        }
        if !matches!(caller.lines.read(&caller.stream), Ok(Received::Bytes(_) | Received::Nothing))
        {
            return;
        }
        let Some(line) = caller.lines.next_line() else {
            if caller.lines.len() <= protocol::QUESTION_MAX {
                self.callers.push(caller);
            }
            return;
        };
        let answered = protocol::question(&String::from_utf8_lossy(&line))
            .and_then(|question| self.answer(question, &caller.stream, fleet));
        if let Err(message) = answered {
            self.replies.send_line(caller.stream, &json!({ "error": message }));
        }
    }

    fn answer(
        &mut self,
        question: Question,
        stream: &UnixStream,
        fleet: &mut Fleet,
    ) -> Result<(), String> {
        let clone = || stream.try_clone().map_err(|e| format!("The connection fails: {e}"));
        match question {
            Question::Ps => {
                let table = json!(self.table(fleet));
                self.replies.send_line(clone()?, &table);
            }
            Question::Logs(name) => {
                let member = &fleet.members()[place(fleet, &name)?];
                let lost = member.console_end().saturating_sub(CONSOLE_BYTES_MAX as u64);
                let text = String::from_utf8_lossy(member.console()).into_owned();
                self.replies.send_line(clone()?, &json!({ "logs": text, "lost_bytes": lost }));
            }
            Question::Console(name) => {
                let guest = place(fleet, &name)?;
                fleet.wake(guest);
                let from = fleet.members()[guest].console_end();
                let answer = line(&json!({ "console": name }));
                self.consoles.attach(guest, clone()?, from, answer)?;
            }
            Question::Exec { guest: name, command } => {
                let guest = place(fleet, &name)?;
                match self.readiness.state(guest) {
                    ReadyState::Starting => return Err(format!("Guest {name} is not up yet")),
                    ReadyState::Ended => return Err(format!("Guest {name} does not run")),
                    ReadyState::Asked | ReadyState::Ready => {}
                }
                fleet.wake(guest);
                let answer = line(&json!({ "exec": name }));
                self.shells.run(guest, command, Some((clone()?, answer)), fleet);
            }
            Question::Capture(name) => {
                let guest = place(fleet, &name)?;
                fleet.wake(guest);
                self.captures.begin(guest, clone()?, fleet)?;
            }
            Question::Park(name) => {
                let guest = place(fleet, &name)?;
                let refused = |why| Err(format!("Guest {name} cannot be parked: {why}"));
                if self.shells.busy().any(|busy| busy == guest) {
                    return refused("a command runs in it");
                }
                if self.consoles.attached().any(|attached| attached == guest) {
                    return refused("a terminal is attached to it");
                }
                self.parkings.park(guest, clone()?, fleet, &mut self.replies)?;
            }
            Question::Wake(name) => {
                let guest = place(fleet, &name)?;
                if self.readiness.state(guest) == ReadyState::Ended {
                    return Err(format!("Guest {name} does not run"));
                }
                self.parkings.wake(guest, clone()?, fleet, &mut self.replies);
            }
            Question::Manage if self.manager.is_some() => {
                return Err("Another host manager has these guests".to_owned());
            }
            Question::Manage => {
                let specs = || fleet.members().iter().map(|member| member.spec());
                let names: Vec<&str> = specs().map(|spec| spec.name.as_str()).collect();
                let dir =
                    specs().find_map(|spec| Some(spec.run_dir.as_ref()?.display().to_string()));
                let classes = self.occupants.iter().map(|occupant| occupant.class.as_str());
                let classes: BTreeMap<&str, &str> = names.iter().copied().zip(classes).collect();
                let answer = json!({ "managed": names, "classes": classes, "dir": dir });
                self.manager = Some(clone()?);
                fleet.yield_to_other_manager();
                self.replies.send_line(clone()?, &answer);
            }
            Question::Down => {
                self.replies.send_line(clone()?, &json!({ "down": fleet.members().len() }));
                self.ending = Some(clone()?);
            }
        }
        Ok(())
    }

    fn table(&self, fleet: &Fleet) -> FarmTable {
        let row = |(guest, (occupant, member)): (usize, (&Occupant, &Member))| {
            let spec = member.spec();
            GuestRow {
                name: spec.name.clone(),
                class: occupant.class.clone(),
                pid: member.pid(),
                state: member.word().to_owned(),
                ready: self.readiness.state(guest) == ReadyState::Ready,
                reason: match member.state() {
                    State::Ended(reason) => Some(reason.clone()),
                    _ => None,
                },
                ports: occupant.ports.clone(),
                address: spec.net.as_ref().map(|net| net.address().to_string()),
                arch: spec.image.arch.name().to_owned(),
                accelerator: spec.accel.to_string(),
                cpus: spec.cpus,
                memory_mib: spec.memory_mib,
                shares: occupant.shares,
                cpu_percent: member.usage().map(|usage| usage.cpu_percent),
            }
        };
        FarmTable {
            farm: self.name.clone(),
            pid: std::process::id(),
            uptime_ms: fleet.now_ms(),
            guests: self.occupants.iter().zip(fleet.members()).enumerate().map(row).collect(),
        }
    }
}

fn place(fleet: &Fleet, name: &str) -> Result<usize, String> {
    let mut names = fleet.members().iter().map(|member| member.spec().name.as_str());
    names.clone().position(|other| other == name).ok_or_else(|| {
        let some: Vec<&str> = names.by_ref().take(NAMES_MAX).collect();
        let more = if names.next().is_some() { " and others" } else { "" };
        format!("There is no guest {name:?}; there are {}{more}", some.join(", "))
    })
}

/// Whether a client that sends nothing more has closed its end.
fn has_ended(mut stream: &UnixStream) -> bool {
    match stream.read(&mut [0; 4096]) {
        Ok(count) => count == 0,
        Err(error) => !is_passing(&error),
    }
}
