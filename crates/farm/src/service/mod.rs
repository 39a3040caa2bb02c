//! Guests that run, and the socket through which others ask about them.
//!
//! ```text
//!   PID/control ─► request (manager::control) ─► farm, logs, down  answered at once
//!                                             ─► capture     answered when the guest has
//!                                             ─► park, wake  answered when the guest is
//!                                             ─► console     the stream is the guest's terminal
//!                                             ─► exec        the stream is the command's output
//!                                             ─► lend        the stream is a manager's lease
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
mod ready;
mod shells;
#[cfg(test)]
mod tests;

pub use captures::POOL;
pub use client::{ask, ask_within, exec, open, run, table, table_within};
pub use ready::{ProbedPort, ReadyState};

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use manager::control::{
    Answer, Ask, Asked, Bounds, ConsoleLog, Error, Failure, FarmGuest, FarmTable, Lent, Return,
    Server, encode_answer,
};
use reactor::{PollSet, Ready, is_passing};
use rustix::event::PollFlags;
use vm::CONSOLE_BYTES_MAX;

use crate::Password;
use crate::fleet::{Event, Fleet, Member, State};
use captures::Captures;
use consoles::Consoles;
use parking::Parkings;
use ready::Readiness;
use shells::Shells;

/// What the socket is called in the farm's directory.
pub const SOCKET: &str = "control";
/// So many guests are named to a client that asks for one that is not there.
const NAMES_MAX: usize = 10;

/// The properties of a guest besides how it is started.
#[derive(Clone, Debug)]
pub struct Occupant {
    /// The class that it is of.
    pub class: String,
    /// Its ports on the host.
    pub ports: Vec<ProbedPort>,
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

    pub(super) const CONTROL: u64 = OTHERS;
    pub(super) const CONSOLES: u64 = OTHERS + 1;
    pub(super) const SHELLS: u64 = OTHERS + 2;
    pub(super) const PROBES: u64 = OTHERS + 3;
    pub(super) const MANAGER: u64 = OTHERS + 4;
    pub(super) const TAILS: u64 = OTHERS + 5;
    pub(super) const END: u64 = OTHERS + 6;
}

/// The first owner in the fleet's poll set that is neither the fleet's nor the service's.
pub const OWNERS_END: u64 = owner::END;

/// The control socket, and all requests under way.
#[derive(Debug)]
pub struct Service {
    /// The farm's name, if it has one.
    name: Option<String>,
    control: Server,
    occupants: Vec<Occupant>,
    consoles: Consoles,
    shells: Shells,
    captures: Captures,
    parkings: Parkings,
    readiness: Readiness,
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
        Ok(Service {
            name,
            control: Server::open(&dir.join(SOCKET), None, Bounds::FARM)?,
            consoles: Consoles::default(),
            shells: Shells::new(occupants.len()),
            captures: Captures::default(),
            parkings: Parkings::default(),
            readiness: Readiness::new(occupants.iter().map(|o| o.ports.clone()).collect()),
            occupants,
            manager: None,
            ending: None,
        })
    }

    /// What has to be waited for.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        self.control.fds(set.owner(owner::CONTROL));
        self.consoles.fds(set.owner(owner::CONSOLES));
        self.shells.fds(set.owner(owner::SHELLS));
        self.shells.client_fds(set.owner(owner::TAILS));
        self.readiness.fds(set.owner(owner::PROBES));
        if let Some(manager) = &self.manager {
            set.owner(owner::MANAGER).add(0, manager.as_fd(), PollFlags::IN);
        }
    }

    /// Deals with what has come: on the connections, and from the fleet.
    pub fn turn(&mut self, ready: &Ready, events: &[Event], fleet: &mut Fleet) {
        let now = fleet.now_ms();
        for event in events {
            if let Event::Up(guest) = event {
                // Also of one that was to be parked, or woken, and has begun anew instead.
                self.parkings.runs(*guest, fleet, &mut self.control);
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
                        self.captures.has_ended(*guest, fleet, &mut self.control);
                    }
                    self.parkings.is_parked(*guest, fleet, &mut self.control);
                }
                Event::Woken(guest) => {
                    self.parkings.runs(*guest, fleet, &mut self.control);
                    self.captures.runs(*guest, fleet, &mut self.control);
                }
                Event::Ended(guest) => {
                    self.parkings.has_ended(*guest, fleet, &mut self.control);
                    self.readiness.has_ended(*guest);
                    self.shells.has_ended(*guest);
                    self.captures.has_ended(*guest, fleet, &mut self.control);
                }
                // A client of the QEMU that was ended gets no answer.
                Event::Hung { guest, .. } => {
                    self.shells.has_ended(*guest);
                    self.captures.has_ended(*guest, fleet, &mut self.control);
                }
                Event::Captured { guest, captured } => {
                    self.captures.captured(*guest, captured, fleet, &mut self.control);
                }
            }
        }
        // Before the callers, so that the next manager may begin.
        if ready.has(owner::MANAGER) && self.manager.as_ref().is_some_and(has_ended) {
            self.manager = None;
            fleet.take_back();
        }
        self.consoles.turn(ready.of(owner::CONSOLES), fleet);
        for guest in self.shells.turn(ready.of(owner::SHELLS), fleet) {
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
        let mut asked = Vec::new();
        self.control.turn(ready.of(owner::CONTROL), now, &mut asked);
        for Asked { client, id, ask, .. } in asked {
            let to = Return { client, id };
            if let Some(answer) = self.serve(ask, to, fleet).transpose() {
                self.control.answer(client, id, &answer, now);
            }
        }
        for client in self.control.take_left() {
            self.parkings.has_left(client);
            self.captures.has_left(client);
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
        self.control.hang_up();
        self.consoles = Consoles::default();
        self.shells.drop_clients();
        self.captures = Captures::default();
        self.parkings = Parkings::default();
    }

    /// Takes the guests' ports and balloons back, and hangs up on everybody: it is turned no more.
    pub fn drop_manager(&mut self, fleet: &mut Fleet) {
        self.drop_clients();
        self.manager = None;
        fleet.take_back();
    }

    /// When it wants to be turned again, whatever comes.
    pub fn next_ms(&self) -> u64 {
        self.readiness.next_ms().min(self.control.next_ms())
    }

    /// Whether a client has asked for the farm's end.
    pub fn is_to_end(&self) -> bool {
        self.ending.is_some()
    }

    /// How a guest's services are.
    pub fn ready_state(&self, guest: usize) -> ReadyState {
        self.readiness.state(guest)
    }

    /// Serves a request; the answer, if it comes now and no stream goes on behind it.
    fn serve(
        &mut self,
        ask: Ask,
        to: Return,
        fleet: &mut Fleet,
    ) -> Result<Option<Answer>, Failure> {
        Ok(match ask {
            Ask::Farm => Some(Answer::Farm(self.table(fleet))),
            Ask::Logs { guest } => {
                let member = &fleet.members()[place(fleet, &guest)?];
                let lost_bytes = member.console_end().saturating_sub(CONSOLE_BYTES_MAX as u64);
                let text = String::from_utf8_lossy(member.console()).into_owned();
                Some(Answer::Logs(ConsoleLog { text, lost_bytes }))
            }
            Ask::Console { guest } => {
                let guest = place(fleet, &guest)?;
                self.consoles.has_room()?;
                fleet.wake(guest);
                let from = fleet.members()[guest].console_end();
                if let Some((stream, answer)) = self.stream(to, Answer::Console {}) {
                    self.consoles.attach(guest, stream, from, answer);
                }
                None
            }
            Ask::Exec { guest: name, command } => {
                let guest = place(fleet, &name)?;
                match self.readiness.state(guest) {
                    ReadyState::Starting => {
                        return Err(Failure::new(format!("Guest {name} is not up yet")));
                    }
                    ReadyState::Ended => return Err(ended(&name)),
                    ReadyState::Asked | ReadyState::Ready => {}
                }
                fleet.wake(guest);
                let client = self.stream(to, Answer::Exec {});
                if client.is_some() {
                    self.shells.run(guest, command, client, fleet);
                }
                None
            }
            Ask::Capture { guest } => {
                let guest = place(fleet, &guest)?;
                fleet.wake(guest);
                self.captures.begin(guest, to, fleet)?;
                None
            }
            Ask::Park { guest: name } => {
                let guest = place(fleet, &name)?;
                let refused =
                    |why| Err(Failure::new(format!("Guest {name} cannot be parked: {why}")));
                if self.shells.busy().any(|busy| busy == guest) {
                    return refused("a command runs in it");
                }
                if self.consoles.attached().any(|attached| attached == guest) {
                    return refused("a terminal is attached to it");
                }
                self.parkings.park(guest, to, fleet)?
            }
            Ask::Wake { guest: name } => {
                let guest = place(fleet, &name)?;
                if self.readiness.state(guest) == ReadyState::Ended {
                    return Err(ended(&name));
                }
                self.parkings.wake(guest, to, fleet)?
            }
            Ask::Lend if self.manager.is_some() => {
                return Err(Failure::new("Another host manager has these guests"));
            }
            Ask::Lend => {
                let names = fleet.members().iter().map(|member| member.spec().name.clone());
                let classes = self.occupants.iter().map(|occupant| occupant.class.clone());
                let lent = Answer::Lend(Lent { classes: names.zip(classes).collect() });
                self.manager = Some(self.control.lease(to.client).ok_or_else(unkept)?);
                fleet.yield_to_other_manager();
                Some(lent)
            }
            Ask::Down => {
                self.ending = Some(self.control.lease(to.client).ok_or_else(unkept)?);
                Some(Answer::Down { guests: fleet.members().len() })
            }
            of_manager => {
                let text = format!("A farm has no `{}`", of_manager.verb());
                return Err(Failure::new(text).help("ask the manager, `pinhead host`"));
            }
        })
    }

    /// The connection of a client that goes on as a stream, and the answer that comes first.
    fn stream(&mut self, to: Return, answer: Answer) -> Option<(UnixStream, Vec<u8>)> {
        Some((self.control.take(to.client)?, encode_answer(Some(to.id), &Ok(answer))))
    }

    fn table(&self, fleet: &Fleet) -> FarmTable {
        let row = |(guest, (occupant, member)): (usize, (&Occupant, &Member))| {
            let spec = member.spec();
            FarmGuest {
                name: spec.name.clone(),
                class: occupant.class.clone(),
                pid: member.pid(),
                state: member.word().to_owned(),
                ready: self.readiness.state(guest) == ReadyState::Ready,
                reason: match member.state() {
                    State::Ended(reason) => Some(reason.clone()),
                    _ => None,
                },
                ports: occupant.ports.iter().map(|port| port.at).collect(),
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

fn unkept() -> Failure {
    Failure::new("The connection cannot be kept").help("there may be too many open files")
}

fn ended(name: &str) -> Failure {
    Failure::new(format!("Guest {name} does not run"))
}

fn place(fleet: &Fleet, name: &str) -> Result<usize, Failure> {
    let mut names = fleet.members().iter().map(|member| member.spec().name.as_str());
    names.clone().position(|other| other == name).ok_or_else(|| {
        let some: Vec<&str> = names.by_ref().take(NAMES_MAX).collect();
        let more = if names.next().is_some() { " and others" } else { "" };
        let text = format!("There is no guest {name:?}; there are {}{more}", some.join(", "));
        Failure::new(text)
    })
}

/// Whether a client that sends nothing more has closed its end.
fn has_ended(mut stream: &UnixStream) -> bool {
    match stream.read(&mut [0; 4096]) {
        Ok(count) => count == 0,
        Err(error) => !is_passing(&error),
    }
}
