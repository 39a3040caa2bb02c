//! Requests for changes: limits set by the operator, and reservations.

mod change;

use crate::control::{Answer, Change, ClientId, Entitled, Failure, Peer, Reserved, Return};
use crate::effect::{Effect, GuestEvent, MemoryEvent, Now, RequestEvent};
use crate::world::World;
use base::Bytes;
use change::{changed, in_words};
use hypervisor::Id;
use policy::arbiter::{self, Clause, Key, Mode};
use std::collections::BTreeMap;
use store::kinds;

/// Maximum number of names in an error message.
const NAMES_MAX: usize = 12;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    to: Return,
    mib: u64,
    hold_ms: u64,
}

/// Requests that change something, and waiting reservations.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: BTreeMap<u64, Waiting>,
    reservations: u64,
}

impl Requests {
    pub(crate) fn step(&mut self, world: &World<'_>, event: RequestEvent, now: Now) -> Vec<Effect> {
        match event {
            RequestEvent::Set { to, peer, guest, change } => {
                match set(world, &guest, change, peer) {
                    Ok((mut effects, entitled)) => {
                        effects.push(to.answer(Ok(Answer::Set(entitled))));
                        effects
                    }
                    Err(failure) => vec![to.answer(Err(failure))],
                }
            }
            RequestEvent::Reserve { to, mib, timeout_ms, hold_ms } => {
                let waiting = Waiting { to, mib, hold_ms };
                match self.reserve(world, waiting, timeout_ms, now) {
                    Ok(effect) => vec![effect],
                    Err(failure) => vec![to.answer(Err(failure))],
                }
            }
            RequestEvent::Unreserve { to, reservation } => {
                let mut effects = vec![Effect::Memory(MemoryEvent::Unreserve(reservation))];
                if let Some(waiting) = self.waiting.remove(&reservation) {
                    let failure = Failure::new("Another client has cancelled the reservation");
                    effects.push(waiting.to.answer(Err(failure)));
                }
                effects.push(to.answer(Ok(Answer::Unreserve {})));
                effects
            }
            RequestEvent::Refused(reservation) => {
                let failure = Failure::new("Too many reservations are open").help("unreserve some");
                let waiting = self.waiting.remove(&reservation);
                waiting.into_iter().map(|one| one.to.answer(Err(failure.clone()))).collect()
            }
            RequestEvent::Settled(reserved) => {
                reserved.iter().flat_map(|one| self.settled(world, one)).collect()
            }
            RequestEvent::Left(client) => self.left(client),
        }
    }

    /// Cancels the reservations of a client that has left before the response.
    fn left(&mut self, client: ClientId) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.waiting.retain(|reservation, waiting| {
            let is_there = waiting.to.client != client;
            if !is_there {
                effects.push(Effect::Memory(MemoryEvent::Unreserve(*reservation)));
            }
            is_there
        });
        effects
    }

    fn reserve(
        &mut self,
        world: &World<'_>,
        waiting: Waiting,
        timeout_ms: u64,
        now: Now,
    ) -> Result<Effect, Failure> {
        if !world.acts {
            return Err(Failure::new(
                "This manager changes nothing (--dry-run), so it frees no memory",
            ));
        }
        let total = world.host.machine().map(|machine| machine.total);
        let total = total.map(|total| world.settings.budget(total).unwrap_or(total));
        let most = total.map(|total| total.less(world.plan.reserve));
        if let Some(most) = most.filter(|most| Bytes::mib(waiting.mib) > *most) {
            let message = format!("The host could never free {} MiB for one guest", waiting.mib);
            let help = format!("reserve at most {} MiB", most.as_mib());
            return Err(Failure::new(message).help(help));
        }
        self.reservations += 1;
        let reservation = self.reservations;
        self.waiting.insert(reservation, waiting);
        let deadline_ms = now.ms.saturating_add(timeout_ms);
        Ok(Effect::Memory(MemoryEvent::Reserve {
            reservation,
            size: Bytes::mib(waiting.mib),
            deadline_ms,
            held_ms: deadline_ms.saturating_add(waiting.hold_ms),
        }))
    }

    fn settled(&mut self, world: &World<'_>, one: &arbiter::Reserved) -> Vec<Effect> {
        let Some(Waiting { to, mib, hold_ms }) = self.waiting.remove(&one.id) else {
            return Vec::new();
        };
        let (kind, text, answer) = match &one.outcome {
            Ok(()) => {
                let held = Reserved { reservation: one.id, mib, hold_ms };
                let text = format!("{mib} MiB are reserved");
                (kinds::RESERVED, text, Ok(Answer::Reserve(held)))
            }
            Err(refused) => {
                let text = format!("{mib} MiB could not be freed in time");
                let failure = Failure::new(text.as_str()).help(refusals(world, refused));
                (kinds::NOT_RESERVED, text, Err(failure))
            }
        };
        vec![Effect::note(kind, text, None), to.answer(answer)]
    }
}

/// Changes a guest's limits, and returns the new limits.
fn set(
    world: &World<'_>,
    name: &str,
    change: Change,
    peer: Peer,
) -> Result<(Vec<Effect>, Entitled), Failure> {
    let guest = world.guests.find(name)?;
    let mut over = world.guests.override_of(guest.id);
    changed(&mut over, change, guest)?;
    let (name, memory) = (&guest.found.name, guest.found.memory);
    let (limits, class) = world.settings.entitlement(name, memory, guest.part.as_ref());
    let limits = over.applied(limits, guest.found.memory);
    let by = format!("user {}, process {}", peer.uid, peer.pid);
    let text = format!("the operator ({by}) set {}", in_words(change));
    let effects = vec![
        Effect::Guests(GuestEvent::Override(guest.id, over)),
        Effect::note("set", text, Some(guest.who())),
        Effect::Hurry,
    ];
    let entitled = Entitled {
        guest: guest.found.name.clone(),
        class: class.map(str::to_owned),
        mode: limits.mode.into(),
        pin_bytes: match limits.mode {
            Mode::Pinned(size) => Some(size.0),
            Mode::Managed | Mode::Released => None,
        },
        min_bytes: limits.min.0,
        max_bytes: limits.max.0,
        shares: limits.shares,
    };
    Ok((effects, entitled))
}

/// Describes the guests that could not shrink further, grouped by the clause that prevented it.
fn refusals(world: &World<'_>, refused: &[(Key, Clause)]) -> String {
    let mut by_clause: BTreeMap<Clause, Vec<&str>> = BTreeMap::new();
    for (key, clause) in refused {
        if let Some(guest) = world.guests.get(Id(key.0)) {
            by_clause.entry(*clause).or_default().push(&guest.found.name);
        }
    }
    let clauses: Vec<String> = by_clause
        .into_iter()
        .map(|(clause, names)| {
            let shown = names.len().min(NAMES_MAX);
            let more = match names.len() - shown {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{}{more} ({})", names[..shown].join(", "), clause.name())
        })
        .collect();
    match clauses.is_empty() {
        true => "there is no guest that could give memory".into(),
        false => format!("these guests gave no more memory: {}", clauses.join("; ")),
    }
}
