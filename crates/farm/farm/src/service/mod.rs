//! Control service of running guests: the socket for requests, and the checks of guests' ports.
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
//! The service has no thread of its own, because the fleet's loop runs it. No call waits for a
//! client, and the output kept for a slow client is bounded.

mod captures;
mod client;
mod consoles;
mod host_manager;
mod parking;
mod peer;
mod ready;
mod shells;
#[cfg(test)]
mod tests;

pub(crate) use client::PATIENCE;
pub use client::{ask, ask_within, exec, open, run, table, table_within};
pub use ready::{ProbedPort, ReadyState};

use std::os::unix::net::UnixStream;
use std::path::Path;

use manager::control::{
    Answer, Ask, Asked, Bounds, ConsoleLog, Error, Failure, FarmGuest, FarmTable, Lent, Return,
    Server, encode_answer,
};
use reactor::{PollSet, Ready};
use rustix::event::PollFlags;
use vm::CONSOLE_BYTES_MAX;

use crate::Password;
use crate::fleet::{Event, Fleet, Member, Refusal, State};
use captures::Captures;
use consoles::Consoles;
use host_manager::HostManager;
use parking::{Parkings, refused};
use ready::Readiness;
use shells::Shells;

/// Name of the socket in the farm's directory.
pub const SOCKET: &str = "control";

/// Properties of a guest that are not in its specification.
#[derive(Clone, Debug)]
pub struct Occupant {
    /// Class of the guest.
    pub class: String,
    /// The guest's ports on the host.
    pub ports: Vec<ProbedPort>,
    /// Command line for the guest's shell once the guest is ready.
    pub command: Option<String>,
    /// Weight of the guest against others.
    pub shares: u32,
    /// Password of the farm's database, if the guest needs it.
    pub password: Option<Password>,
}

/// Keys of the service's descriptors in the fleet's poll set.
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

/// The first key in the fleet's poll set used neither by the fleet nor by the service.
pub const OWNERS_END: u64 = owner::END;

/// The control socket, and all requests under way.
#[derive(Debug)]
pub struct Service {
    /// Name of the farm, if it has one.
    name: Option<String>,
    control: Server,
    occupants: Vec<Occupant>,
    consoles: Consoles,
    shells: Shells,
    captures: Captures,
    parkings: Parkings,
    readiness: Readiness,
    /// Connection of the host manager that controls the guests' ports and balloons while the
    /// connection is open.
    manager: Option<HostManager>,
    /// Another manager that waits until this process's own manager has ended.
    next_manager: Option<(u32, Return)>,
    /// Client that requested the end of the farm. The client's connection closes when the farm
    /// ends.
    ending: Option<UnixStream>,
}

impl Service {
    /// Listens in a private directory. `occupants` has one entry for each guest of the fleet, in
    /// the same order.
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
            next_manager: None,
            ending: None,
        })
    }

    /// Adds the descriptors to poll.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        self.control.fds(set.owner(owner::CONTROL));
        self.consoles.fds(set.owner(owner::CONSOLES));
        self.shells.fds(set.owner(owner::SHELLS));
        self.shells.client_fds(set.owner(owner::TAILS));
        self.readiness.fds(set.owner(owner::PROBES));
        if let Some(manager) = &self.manager {
            set.owner(owner::MANAGER).add(0, manager.fd(), PollFlags::IN);
        }
    }

    /// Handles requests on the connections, and events of the fleet.
    pub fn turn(&mut self, ready: &Ready, events: &[Event], fleet: &mut Fleet) {
        let now = fleet.now_ms();
        for event in events {
            if let Event::Up(guest) = event {
                // A guest that should have been parked or woken may have rebooted instead.
                self.parkings.runs(*guest, fleet, &mut self.control);
            }
            match event {
                Event::Up(guest) if self.occupants[*guest].password.is_none() => {
                    self.readiness.is_up(*guest, now);
                }
                // The guest's services respond once they have the password.
                Event::Up(guest) => self.set_up(*guest, fleet),
                Event::Reset(guest) => {
                    self.shells.was_reset(*guest);
                    if self.readiness.state(*guest) != ReadyState::Starting {
                        self.set_up(*guest, fleet);
                    }
                }
                Event::Note(_) => {}
                Event::WantsTimer(guest) => {
                    if let Some(manager) = &self.manager {
                        manager.ask_timer(&fleet.members()[*guest].spec().name);
                    }
                }
                Event::Parked(guest) => {
                    if fleet.members()[*guest].is_away() {
                        // The QEMU has ended, and the next one has another control port.
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
                // The clients that wait for the hung QEMU get no response.
                Event::Hung { guest, .. } => {
                    self.shells.has_ended(*guest);
                    self.captures.has_ended(*guest, fleet, &mut self.control);
                }
                Event::Captured { guest, captured } => {
                    self.captures.captured(*guest, captured, fleet, &mut self.control);
                }
            }
        }
        // The end of a manager is handled before new requests, so that the next manager's request
        // succeeds.
        if ready.has(owner::MANAGER)
            && let Some(manager) = &mut self.manager
            && !manager.turn(fleet)
        {
            self.manager_has_gone(fleet);
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
            // A resumed guest already runs the command.
            let is_new = !fleet.members()[guest].is_resumed();
            if let Some(command) = self.occupants[guest].command.as_ref().filter(|_| is_new) {
                self.shells.run_aside(guest, command, fleet);
            }
        }
        let mut asked = Vec::new();
        self.control.turn(ready.of(owner::CONTROL), now, &mut asked);
        for Asked { client, id, peer, ask } in asked {
            let to = Return { client, id };
            if let Some(answer) = self.serve(ask, peer.pid, to, fleet).transpose() {
                self.control.answer(client, id, &answer, now);
            }
        }
        for client in self.control.take_left() {
            self.parkings.has_left(client);
            self.captures.has_left(client);
            self.next_manager.take_if(|(_, to)| to.client == client);
        }
    }

    /// Returns the process of the manager that has the guests, or that waits for them.
    pub fn manager_pid(&self) -> Option<u32> {
        let next = self.next_manager.map(|(pid, _)| pid);
        next.or(self.manager.as_ref().map(|manager| manager.pid))
    }

    /// Takes the guests back from this process's own manager, after that manager has hung.
    pub fn leave_own_manager(&mut self, fleet: &mut Fleet) {
        if self.manager.as_ref().is_some_and(HostManager::is_own) {
            self.manager_has_gone(fleet);
        }
    }

    /// Takes the guests back, or hands them over to the manager that waits for them.
    fn manager_has_gone(&mut self, fleet: &mut Fleet) {
        self.manager = None;
        fleet.take_back();
        if let Some((pid, to)) = self.next_manager.take() {
            let answer = self.lend(pid, to, fleet);
            self.control.answer(to.client, to.id, &answer, fleet.now_ms());
        }
    }

    /// Hands over the guests' ports and balloons to a manager.
    fn lend(&mut self, pid: u32, to: Return, fleet: &mut Fleet) -> Result<Answer, Failure> {
        let names = fleet.members().iter().map(|member| member.spec().name.clone());
        let classes = self.occupants.iter().map(|occupant| occupant.class.clone());
        let lent = Answer::Lend(Lent { classes: names.zip(classes).collect() });
        let stream = self.control.lease(to.client).ok_or_else(unkept)?;
        self.manager = Some(HostManager::new(pid, stream));
        fleet.yield_to_other_manager();
        Ok(lent)
    }

    /// Sends a guest the password for its servers, if the guest needs a password.
    fn set_up(&mut self, guest: usize, fleet: &mut Fleet) {
        if let Some(password) = &self.occupants[guest].password {
            self.shells.set_up(guest, password.line(), fleet);
        }
    }

    /// Disconnects all clients except a manager, and drops their requests. The call follows a fault
    /// in the handling of a request.
    pub fn drop_clients(&mut self) {
        self.control.hang_up();
        self.consoles = Consoles::default();
        self.shells.drop_clients();
        self.captures = Captures::default();
        self.parkings = Parkings::default();
        self.next_manager = None;
    }

    /// Takes back the guests' ports and balloons, and disconnects all clients. The service does not
    /// run after this call.
    pub fn drop_manager(&mut self, fleet: &mut Fleet) {
        self.drop_clients();
        (self.manager, self.next_manager) = (None, None);
        fleet.take_back();
    }

    /// Returns the time at which the next turn is due.
    pub fn next_ms(&self) -> u64 {
        self.readiness.next_ms().min(self.control.next_ms())
    }

    /// Returns true if a client has requested the end of the farm.
    pub fn is_to_end(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns the readiness of a guest's services.
    pub fn ready_state(&self, guest: usize) -> ReadyState {
        self.readiness.state(guest)
    }

    /// Serves a request. Returns the answer, unless the answer is sent later or begins a stream.
    fn serve(
        &mut self,
        ask: Ask,
        pid: u32,
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
                if self.shells.busy().any(|busy| busy == guest) {
                    return Err(refused(&name, &Refusal::Command));
                }
                if self.consoles.attached().any(|attached| attached == guest) {
                    return Err(refused(&name, &Refusal::Terminal));
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
            Ask::Lend => match &self.manager {
                None => Some(self.lend(pid, to, fleet)?),
                Some(own) if own.is_own() && self.next_manager.is_none() => {
                    self.next_manager = Some((pid, to));
                    None
                }
                Some(_) => {
                    let text = "Another `pinhead host` manages these guests already; end it first";
                    return Err(Failure::new(text));
                }
            },
            Ask::Down => {
                self.ending = Some(self.control.lease(to.client).ok_or_else(unkept)?);
                Some(Answer::Down { guests: fleet.members().len() })
            }
            of_manager => {
                let text = format!("A farm does not have the command `{}`", of_manager.verb());
                return Err(Failure::new(text).help("use the manager, `pinhead host`"));
            }
        })
    }

    /// Returns the connection of a client that becomes a stream, and the encoded answer at its
    /// beginning.
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
    Failure::new("The farm cannot keep this connection open")
        .help("the farm's process may have too many open files")
}

fn ended(name: &str) -> Failure {
    Failure::new(format!("Guest {name} does not run"))
}

fn place(fleet: &Fleet, name: &str) -> Result<usize, Failure> {
    let names = fleet.members().iter().map(|member| member.spec().name.as_str());
    let place = names.clone().position(|other| other == name);
    place.ok_or_else(|| {
        Failure::new(format!("There is no guest {name:?}")).help(base::correction(name, names))
    })
}
