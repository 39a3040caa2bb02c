//! Guests parked at the operator's request (`pinhead park`), until `pinhead wake`.
//!
//! ```text
//!   park ─► the lease ─► virtual CPUs stop ─► State(Paused) ─► answered; page-out takes it first
//!   wake ─► virtual CPUs run ─► State(Running) ─► answered; its daemon gets the time
//! ```
//!
//! Network traffic does not pass through the manager, so traffic does not wake a parked guest. A
//! guest is added to the keeper's list of parked guests before the guest is parked. The keeper can
//! therefore wake the guest, however the manager ends. If both processes are killed, the next
//! manager finds the list on disk.
//!
//! A hung hypervisor may stop a guest long after the request. The manager then repeats its requests
//! to wake the guest until the guest certainly runs. A guest with a lost monitor is still parked
//! when it is found again.

use crate::attach::run_dir;
use crate::control::{Answer, Failure, Parked, Peer, Return};
use crate::effect::{Effect, GuestEvent, Now, ParkEvent};
use crate::guest::ManagedGuest;
use crate::parked::Stood;
use crate::world::World;
use hypervisor::{Id, Pause, ProcessId, RunState};
use std::collections::BTreeMap;
use store::kinds::{PARKED, WOKEN};

/// Timeout of a hypervisor's response. The client waits a second longer.
const PATIENCE_MS: u64 = 4_000;
/// Time after which a hypervisor has answered or is known to be silent.
const SURE_MS: u64 = 6_000;
/// A guest counts as resumed since its park if its virtual CPUs have used this CPU time. A resumed
/// kernel uses more in its first second. Requests to a stopped QEMU cost microseconds.
const LET_RUN_NS: u64 = 10_000_000;

/// A pending request and its start.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Client of the request; `None` if the manager itself wakes the guest.
    to: Option<Return>,
    since_ms: u64,
    /// True once the hypervisor has responded to a repeated request, so that no earlier request is
    /// open.
    is_heard: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Parking(Waiting),
    /// The guest is parked. The value is the CPU time of the virtual CPUs at the stop, in
    /// nanoseconds.
    Parked(Option<u64>),
    Waking(Waiting),
}

/// A parked guest with a live process and a lost monitor.
#[derive(Debug)]
struct Lost {
    was: Id,
    stage: Stage,
    stood: Stood,
}

#[derive(Debug, Default)]
pub(crate) struct Parking {
    guests: BTreeMap<Id, Stage>,
    lost: Vec<Lost>,
}

/// Function that returns the reason why a parked guest is not paged out, if any.
type Kept<'a> = &'a dyn Fn(&ManagedGuest) -> Option<String>;

impl Parking {
    /// Returns the state at the start, with guests that an earlier manager left parked. These
    /// guests are to be woken.
    pub(crate) fn after(left: &[(Id, Stood)]) -> Parking {
        let stage = Stage::Waking(Waiting { to: None, since_ms: 0, is_heard: false });
        let lost = left.iter().map(|(was, stood)| Lost { was: *was, stage, stood: *stood });
        let lost = lost.collect();
        Parking { lost, ..Parking::default() }
    }

    pub(crate) fn step(
        &mut self,
        world: &World<'_>,
        event: ParkEvent,
        kept: Kept<'_>,
        now: Now,
    ) -> Vec<Effect> {
        match event {
            ParkEvent::Asked { to, peer, guest, parks } => {
                let waiting = Waiting { to: Some(to), since_ms: now.ms, is_heard: true };
                let found = world.guests.find(&guest);
                let begun = found.and_then(|guest| match (parks, self.guests.get(&guest.id)) {
                    (true, Some(Stage::Parked(_))) => Ok(vec![to.answer(Ok(done(guest, kept)))]),
                    (true, _) => self.park(world, guest, waiting, peer),
                    (false, _) => self.wake(guest, waiting, peer),
                });
                begun.unwrap_or_else(|failure| vec![to.answer(Err(failure))])
            }
            ParkEvent::State(id, state) => self.is_in(world, id, state, kept),
            ParkEvent::Stays(id, why) => self.stays(world, id, &why),
            ParkEvent::Gone(id, process) => self.gone(id, process),
            ParkEvent::Found(id) => self.found(world, id, now),
            ParkEvent::Second => self.second(world, now),
        }
    }

    fn park(
        &mut self,
        world: &World<'_>,
        guest: &ManagedGuest,
        waiting: Waiting,
        peer: Peer,
    ) -> Result<Vec<Effect>, Failure> {
        let name = &guest.found.name;
        if !world.acts {
            return Err(Failure::new(
                "This manager changes nothing (--dry-run), so it parks no guest",
            ));
        }
        if !world.is_leased {
            let text = "There is no keeper to wake the guest if the manager ends";
            return Err(Failure::new(text).help("try again in some seconds"));
        }
        if let Some(stage) = self.guests.get(&guest.id) {
            return Err(stage.busy(name));
        }
        if run_dir(&guest.found).is_some() {
            let text = format!(
                "{name} is a guest of `pinhead up`, and only that `pinhead up` can park it"
            );
            return Err(
                Failure::new(text).help("run `pinhead park` as the user of that `pinhead up`")
            );
        }
        let why = match guest.state {
            _ if !guest.answers => Some("its hypervisor does not answer"),
            RunState::Running => None,
            RunState::Paused(why) => Some(why.words()),
            RunState::Migrating => Some("it moves to another host, or is being saved"),
            RunState::Dead => Some("it has crashed or shut down"),
        };
        if let Some(why) = why {
            return Err(Failure::new(format!("{name} cannot be parked: {why}")));
        }
        self.guests.insert(guest.id, Stage::Parking(waiting));
        Ok(vec![
            Effect::note(PARKED, format!("{} parks the guest", by(peer)), Some(guest.who())),
            Effect::Park(guest.id),
            Effect::SetRunning { guest: guest.id, runs: false },
        ])
    }

    fn wake(
        &mut self,
        guest: &ManagedGuest,
        waiting: Waiting,
        peer: Peer,
    ) -> Result<Vec<Effect>, Failure> {
        let name = &guest.found.name;
        match (self.guests.get(&guest.id), guest.state) {
            (Some(Stage::Parked(_)), _) => {}
            (Some(stage), _) => return Err(stage.busy(name)),
            (None, RunState::Paused(why)) => {
                let text = format!("{name} was not parked by this manager: {}", why.words());
                let failure = Failure::new(text);
                // The other causes already contain their own advice.
                let by_hand = why == Pause::ByHand;
                return Err(if by_hand {
                    failure.help("resume the guest with the tool that paused it")
                } else {
                    failure
                });
            }
            (None, _) => return Err(Failure::new(format!("{name} is not parked"))),
        }
        if guest.state == RunState::Migrating {
            // The guest may already run elsewhere.
            let text = format!("{name} moves to another host, or is being saved");
            return Err(Failure::new(text).help("wake the guest on its new host"));
        }
        self.guests.insert(guest.id, Stage::Waking(waiting));
        Ok(vec![
            Effect::note(WOKEN, format!("{} wakes the guest", by(peer)), Some(guest.who())),
            Effect::SetRunning { guest: guest.id, runs: true },
        ])
    }

    fn is_in(&mut self, world: &World<'_>, id: Id, state: RunState, kept: Kept<'_>) -> Vec<Effect> {
        let Some(stage) = self.guests.get(&id).copied() else { return Vec::new() };
        let Some(guest) = world.guests.get(id) else { return Vec::new() };
        match (stage, state) {
            (Stage::Parking(_), RunState::Paused(_)) => {
                self.guests.insert(id, Stage::Parked(guest.cpu.ran_ns()));
                let stands = [Effect::Park(id), Effect::Guests(GuestEvent::Parked(id, true))];
                stands.into_iter().chain(stage.answer(Ok(done(guest, kept)))).collect()
            }
            (Stage::Waking(_), RunState::Running) => {
                self.guests.remove(&id);
                awake(id).chain(stage.answer(Ok(done(guest, &|_| None)))).collect()
            }
            (Stage::Parked(_), RunState::Running) => {
                self.guests.remove(&id);
                let text = "another tool has resumed it";
                let note = Effect::note(WOKEN, text, Some(guest.who()));
                awake(id).chain([note]).collect()
            }
            (_, RunState::Dead) => self.ended(id, "It has crashed or shut down"),
            _ => Vec::new(),
        }
    }

    fn ended(&mut self, id: Id, why: &str) -> Vec<Effect> {
        let Some(stage) = self.guests.remove(&id) else { return Vec::new() };
        awake(id).chain(stage.answer(Err(Failure::new(why)))).collect()
    }

    /// Handles a guest that is gone. If only its monitor is lost, the guest keeps its stage and its
    /// entry in the keeper's list.
    fn gone(&mut self, id: Id, process: Option<ProcessId>) -> Vec<Effect> {
        let Some(process) = process.filter(|process| process.is_alive()) else {
            return self.ended(id, "The guest is gone");
        };
        let Some(stage) = self.guests.remove(&id) else { return Vec::new() };
        let ran_ns = if let Stage::Parked(ran_ns) = stage { ran_ns } else { None };
        self.lost.push(Lost { was: id, stage, stood: Stood { process, ran_ns } });
        stage
            .answer(Err(Failure::new("The connection to its monitor was lost")))
            .into_iter()
            .collect()
    }

    /// Handles a new guest, which may have been parked before its monitor was lost.
    fn found(&mut self, world: &World<'_>, id: Id, now: Now) -> Vec<Effect> {
        let Some(guest) = world.guests.get(id) else { return Vec::new() };
        let is_it = |lost: &Lost| guest.found.process == Some(lost.stood.process);
        let Some(at) = self.lost.iter().position(is_it) else { return Vec::new() };
        let Lost { was, stage, stood } = self.lost.swap_remove(at);
        let mut effects = vec![Effect::Awake(was)];
        let ran = stood.ran_ns.zip(guest.cpu.ran_ns());
        let has_run = ran.is_some_and(|(then, now)| now.saturating_sub(then) >= LET_RUN_NS);
        let stage = match (stage, guest.state) {
            (_, RunState::Migrating | RunState::Dead) => return effects,
            (_, RunState::Paused(_)) if has_run => {
                let text = "the guest has run since it was parked, so another tool has paused it";
                effects.push(Effect::note(WOKEN, text, Some(guest.who())));
                return effects;
            }
            (Stage::Parked(_), RunState::Running) => return effects,
            (Stage::Parked(ran_ns), RunState::Paused(_)) => {
                effects.push(Effect::Guests(GuestEvent::Parked(id, true)));
                Stage::Parked(ran_ns)
            }
            // The last request may still take effect.
            _ => {
                let text = "an earlier manager left the guest parked, so the guest is woken";
                effects.push(Effect::note(WOKEN, text, Some(guest.who())));
                Stage::Waking(Waiting { to: None, since_ms: now.ms, is_heard: false })
            }
        };
        self.guests.insert(id, stage);
        // The new identity is written before the old identity is removed, so that the guest is
        // always on disk.
        effects.insert(0, Effect::Park(id));
        effects
    }

    /// Handles a guest that stays as it is, because its hypervisor did not carry out the last
    /// request.
    fn stays(&mut self, world: &World<'_>, id: Id, why: &str) -> Vec<Effect> {
        let Some(stage) = self.guests.get(&id).copied() else { return Vec::new() };
        if matches!(stage, Stage::Waking(Waiting { to: None, .. })) {
            // The request is repeated until the guest certainly runs.
            return Vec::new();
        }
        if matches!(stage, Stage::Waking(_)) && is_running(world, id) {
            // libvirt refuses a request to resume a running guest.
            return self.ended(id, "The guest is running already");
        }
        let (kind, text) = match stage {
            Stage::Parking(_) => (PARKED, format!("it could not be parked: {why}")),
            Stage::Waking(_) | Stage::Parked(_) => (WOKEN, format!("it could not be woken: {why}")),
        };
        let mut effects = Vec::new();
        match stage {
            Stage::Parking(_) => {
                self.guests.remove(&id);
                effects.extend(awake(id));
            }
            Stage::Waking(_) => _ = self.guests.insert(id, Stage::Parked(ran_ns(world, id))),
            Stage::Parked(_) => return effects,
        }
        let who = world.guests.get(id).map(ManagedGuest::who);
        let failure = Failure::new(format!("The guest's hypervisor refuses: {why}"));
        effects.push(Effect::note(kind, text, who));
        effects.extend(stage.answer(Err(failure)));
        effects
    }

    /// Ends requests to hung hypervisors. A guest that could not be stopped in time may still stop,
    /// so the manager tries to wake the guest until it certainly runs.
    fn second(&mut self, world: &World<'_>, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.lost.retain(|lost| {
            let lives = lost.stood.process.is_alive();
            effects.extend((!lives).then_some(Effect::Awake(lost.was)));
            lives
        });
        let late: Vec<(Id, Stage)> = self
            .guests
            .iter()
            .filter(|(_, stage)| stage.is_late(now))
            .map(|(id, stage)| (*id, *stage))
            .collect();
        for (id, stage) in late {
            let Some(guest) = world.guests.get(id) else { continue };
            let runs = guest.answers && guest.state == RunState::Running;
            match stage {
                Stage::Waking(Waiting { to: None, is_heard: true, .. }) if runs => {
                    self.guests.remove(&id);
                    effects.extend(awake(id));
                }
                Stage::Waking(Waiting { to: Some(_), .. }) => {
                    self.guests.insert(id, Stage::Parked(guest.cpu.ran_ns()));
                }
                _ => {
                    // An earlier request may still be open.
                    let is_heard = guest.answers && matches!(stage, Stage::Waking(_));
                    let again = Waiting { to: None, since_ms: now.ms, is_heard };
                    self.guests.insert(id, Stage::Waking(again));
                    // A migrating guest may run elsewhere already.
                    let may_run = guest.state != RunState::Migrating;
                    let wake = Effect::SetRunning { guest: id, runs: true };
                    effects.extend(may_run.then_some(wake));
                }
            }
            let text = "The guest's hypervisor has not responded in time";
            effects.extend(stage.answer(Err(Failure::new(text))));
        }
        effects
    }
}

impl Stage {
    /// Returns true if the hypervisor should have answered by now.
    fn is_late(self, now: Now) -> bool {
        let is_over = |waiting: Waiting, ms| now.ms.saturating_sub(waiting.since_ms) >= ms;
        match self {
            Stage::Parked(_) => false,
            Stage::Waking(waiting) if waiting.to.is_none() => is_over(waiting, SURE_MS),
            Stage::Parking(waiting) | Stage::Waking(waiting) => is_over(waiting, PATIENCE_MS),
        }
    }

    fn busy(self, name: &str) -> Failure {
        let what = match self {
            Stage::Parking(_) => "is being parked",
            Stage::Waking(_) => "is being woken",
            Stage::Parked(_) => "is parked",
        };
        Failure::new(format!("{name} {what} just now")).help("try again in some seconds")
    }

    /// Returns the response to the waiting client.
    fn answer(self, answer: Result<Answer, Failure>) -> Option<Effect> {
        match self {
            Stage::Parking(waiting) | Stage::Waking(waiting) => waiting.to,
            Stage::Parked(_) => None,
        }
        .map(|to| to.answer(answer))
    }
}

fn ran_ns(world: &World<'_>, id: Id) -> Option<u64> {
    world.guests.get(id)?.cpu.ran_ns()
}

fn is_running(world: &World<'_>, id: Id) -> bool {
    world.guests.get(id).is_some_and(|guest| guest.state == RunState::Running)
}

fn done(guest: &ManagedGuest, kept: Kept<'_>) -> Answer {
    Answer::Park(Parked { guest: guest.found.name.clone(), kept: kept(guest) })
}

/// Drops the guest from the list of parked guests.
fn awake(id: Id) -> impl Iterator<Item = Effect> {
    [Effect::Awake(id), Effect::Guests(GuestEvent::Parked(id, false))].into_iter()
}

fn by(peer: Peer) -> String {
    format!("the operator (user {}, process {})", peer.uid, peer.pid)
}
