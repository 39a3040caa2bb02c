//! Who gets memory, and who gives it: one pass over the host and all its guests.
//!
//! ```text
//!   samples ─► Guest (rates, strain, comfort, health of the balloon) ─► Standing
//!                 needs ─► granted from what is really free      ─┐
//!                 host below its set point, needs not met ─► give ├─► Pass { decisions,
//!                 host above it ─► wishes                        ─┘      outcomes, reserved }
//! ```
//!
//! Pure: time comes in as an argument, and the same samples give the same pass. Frees come first:
//! a grant is made of memory that is free now, never of memory that is hoped for. Whoever waits
//! for memory is not shrunk, whatever the host lacks. Where something is not known, nothing moves.

mod donors;
mod grants;
mod guest;
mod reason;
mod reserve;
mod sample;
mod sentence;
mod share;
mod track;
mod view;

pub use guest::Way;
pub use reason::{Action, Arrival, Bound, Clause, Decision, Inputs, Outcome, Pass, Reserved};
pub use reserve::RESERVATIONS_MAX;
pub use sample::{Config, GuestSample, HostSample, Key, Limits, Memory, Mode, Usable, Words};
pub use share::{Part, divide};
pub use track::STUCK_MS;
pub use view::View;

use counters::Bytes;
use guest::{Guest, Standing};
use reserve::{Reservation, Reservations};
use std::collections::BTreeMap;

/// A move smaller than this is not worth waking a guest for.
const MOVE_MIN: Bytes = Bytes::mib(2);

/// What is remembered from pass to pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arbiter {
    guests: BTreeMap<Key, Guest>,
    reservations: Reservations,
    before: Option<HostSample>,
    /// How fast the host's free memory falls, a second.
    fall: Bytes,
    /// The host fell below its set point and has not come back to it.
    short: bool,
}

/// A guest in the middle of a pass.
struct Seat<'a> {
    sample: &'a GuestSample,
    guest: Guest,
    at: Standing,
    words: Words,
    /// What it is to have, once that is decided.
    to: Option<(Bytes, Action, Clause)>,
    bounds: Vec<Bound>,
    /// Its balloon has come to a halt, or was moved: it is asked for what it has.
    cap: Option<Bytes>,
    outcome: Option<Outcome>,
}

/// The host in the middle of a pass.
struct Purse {
    /// Free, without what is promised, on its way out, held or to be kept.
    free: Bytes,
    coming: Bytes,
    promised: Bytes,
    /// What guests need and free memory does not cover.
    unmet: Bytes,
    /// What the host lacks to its set point.
    lack: Bytes,
    /// It lacks that because it waits for memory, not by its set point.
    relieves: bool,
    /// What reservations lack.
    reserve_lack: Bytes,
    emergency: bool,
    /// What it lacks to a little more than its reserve.
    deficit: Bytes,
    /// The host is half-way from its set point to its reserve.
    low: bool,
    /// What may be given to mere wishes.
    surplus: Bytes,
}

impl Arbiter {
    /// Nothing is known yet.
    pub fn new() -> Arbiter {
        Arbiter::default()
    }

    /// A guest started anew in the same process.
    pub fn rebooted(&mut self, key: Key) {
        if let Some(guest) = self.guests.get_mut(&key) {
            guest.forget();
        }
    }

    /// Asks for free memory for somebody who is about to come. What came of it is in a later
    /// pass. False if too many are open.
    #[must_use]
    pub fn reserve(&mut self, id: u64, size: Bytes, deadline_ms: u64, held_ms: u64) -> bool {
        let open = &mut self.reservations.0;
        let has_room = open.len() < RESERVATIONS_MAX;
        if has_room {
            open.push(Reservation { id, size, deadline_ms, held_ms, held: false });
        }
        has_room
    }

    /// Lets a reservation go: it was used, or is not needed any more.
    pub fn unreserve(&mut self, id: u64) {
        self.reservations.0.retain(|r| r.id != id);
    }

    /// What reservations hold.
    pub fn held(&self) -> Bytes {
        self.reservations.held()
    }

    /// How often a guest was moved back and forth.
    pub fn reversals(&self, key: Key) -> u32 {
        self.guests.get(&key).map_or(0, Guest::reversals)
    }

    /// Whether something in a guest waits for memory, as far as is known: such a guest is to be
    /// asked again soon, even if its virtual CPUs hardly run.
    pub fn is_strained(&self, key: Key) -> bool {
        self.guests.get(&key).is_some_and(Guest::is_strained)
    }

    /// Whether another manager moves the balloon of a guest, which is left to that one. A single
    /// change that nobody here asked for is not enough for that.
    pub fn is_let_go(&self, key: Key, now_ms: u64) -> bool {
        self.guests.get(&key).is_some_and(|guest| guest.track.is_let_go(now_ms))
    }

    /// What the balloon of a guest is on its way to.
    pub fn target(&self, key: Key) -> Option<Bytes> {
        self.guests.get(&key)?.track.target()
    }

    /// One pass. `words` says what the operator's rules come to for a guest with these numbers.
    pub fn pass(
        &mut self,
        config: &Config,
        host: Option<&HostSample>,
        samples: &[GuestSample],
        words: &mut dyn FnMut(Key, &Inputs) -> Words,
        now_ms: u64,
    ) -> Pass {
        let fresh = host.filter(|h| now_ms.saturating_sub(h.at_ms) <= 2 * config.stale_ms);
        let mut seats: Vec<Seat<'_>> =
            samples.iter().map(|s| self.seat(s, config, host, words, now_ms)).collect();
        let mut pass = Pass::default();
        pass.inputs.reserve(samples.len());
        let mut purse = None;
        if let Some(host) = fresh {
            let mut open = self.purse(config, host, &seats, now_ms, &mut pass);
            grants::needs(&mut seats, &mut open);
            let refused = donors::take(&mut seats, &mut open, config);
            grants::wishes(&mut seats, &mut open);
            for one in pass.reserved.iter_mut() {
                if let Err(who) = &mut one.outcome {
                    who.clone_from(&refused);
                }
            }
            self.before = Some(*host);
            purse = Some(open);
        }
        let mut guests = BTreeMap::new();
        for seat in seats {
            let (key, sample) = (seat.sample.key, seat.sample);
            let mut inputs = seat.guest.inputs(sample, &seat.at, config, host, now_ms);
            if let Some(purse) = &purse {
                inputs.host_coming = Some(purse.coming);
                inputs.host_promised = Some(purse.promised);
            }
            pass.inputs.push((key, inputs));
            let guest = close(seat, inputs, purse.is_some(), now_ms, &mut pass);
            guests.insert(key, guest);
        }
        // Who is not among the samples is gone, and is not remembered.
        self.guests = guests;
        pass
    }

    fn seat<'a>(
        &mut self,
        sample: &'a GuestSample,
        config: &Config,
        host: Option<&HostSample>,
        words: &mut dyn FnMut(Key, &Inputs) -> Words,
        now_ms: u64,
    ) -> Seat<'a> {
        let mut guest = self.guests.remove(&sample.key).unwrap_or_default();
        guest.observe(sample, now_ms);
        let strained = guest.is_strained();
        let seen = guest.track.look(sample, strained, now_ms);
        if seen.took_back {
            guest.took_back(now_ms);
        }
        if let (Some(_), Some(actual)) = (seen.cap, sample.actual) {
            guest.trimmed(actual);
        }
        let bare = guest.clone().stand(sample, &Words::default(), config, now_ms);
        let said = words(sample.key, &guest.inputs(sample, &bare, config, host, now_ms));
        let at = guest.stand(sample, &said, config, now_ms);
        Seat {
            sample,
            guest,
            at,
            words: said,
            to: None,
            bounds: Vec::new(),
            cap: seen.cap,
            outcome: seen.outcome,
        }
    }

    /// What the host has to give, and what it lacks.
    fn purse(
        &mut self,
        config: &Config,
        host: &HostSample,
        seats: &[Seat<'_>],
        now_ms: u64,
        pass: &mut Pass,
    ) -> Purse {
        if let Some(before) = self.before.filter(|b| b.at_ms < host.at_ms) {
            let window_ms = host.at_ms - before.at_ms;
            let fell = before.available.less(host.available).0.saturating_mul(1000) / window_ms;
            self.fall = Bytes(self.fall.0 / 2 + fell / 2);
        }
        let promised: Bytes = seats
            .iter()
            .map(|s| {
                let going = s.guest.track.owed(s.sample.actual);
                s.guest.promised(s.sample.resident).max(going)
            })
            .sum();
        let coming: Bytes = seats.iter().map(|s| s.guest.track.coming(s.at.actual)).sum();
        let free = host.available.less(promised);
        let spendable = free.less(config.reserve).less(self.reservations.held());
        let (held, failed) = self.reservations.settle(spendable, now_ms);
        pass.reserved.extend(held.into_iter().map(|id| Reserved { id, outcome: Ok(()) }));
        let failures = failed.into_iter().map(|id| Reserved { id, outcome: Err(Vec::new()) });
        pass.reserved.extend(failures);
        let held = self.reservations.held();
        let pending = self.reservations.pending();
        // The set point is for free memory that nobody has a claim on.
        let wanted = config.set_point.max(config.reserve.plus(held));
        // What was granted and has arrived is still the host's until it is used.
        let going: Bytes = seats.iter().map(|s| s.guest.track.owed(s.sample.actual)).sum();
        let after = host.available.less(going).plus(coming);
        let soon = after.less(self.fall);
        if soon < wanted.less(config.hysteresis) {
            self.short = true;
        } else if after >= wanted {
            self.short = false;
        }
        let lack = if self.short { wanted.plus(self.fall).less(after) } else { Bytes::ZERO };
        // A host that waits for memory has too little of it, whatever is said to be available.
        let relief = if host.strained { config.hysteresis.less(coming) } else { Bytes::ZERO };
        let surplus = free.less(wanted.plus(config.hysteresis)).less(pending);
        Purse {
            free: free.less(config.reserve).less(held),
            coming,
            promised,
            unmet: Bytes::ZERO,
            relieves: relief > lack,
            lack: lack.max(relief),
            reserve_lack: pending.plus(config.reserve).plus(held).less(after).min(pending),
            low: after < Bytes(wanted.0 / 2 + config.reserve.0 / 2),
            deficit: config.reserve.plus(config.hysteresis).less(host.available.plus(coming)),
            emergency: host.available.plus(coming) < config.reserve,
            surplus: if host.strained { Bytes::ZERO } else { surplus },
        }
    }
}

/// Turns what was decided about a guest into what is told and done.
fn close(
    mut seat: Seat<'_>,
    inputs: Inputs,
    sees_host: bool,
    now_ms: u64,
    pass: &mut Pass,
) -> Guest {
    let sample = seat.sample;
    pass.outcomes.extend(seat.outcome);
    let actual = seat.at.actual;
    let (to, action, clause) = match (seat.to, seat.at.held) {
        (Some(decided), _) => decided,
        (None, Some((clause, _))) => (actual, Action::Hold, clause),
        (None, None) if !sees_host => (actual, Action::Hold, Clause::Blind),
        (None, None) => {
            let why = seat.at.against.filter(|c| matches!(c, Clause::Strained | Clause::Moving));
            (actual, Action::Hold, why.unwrap_or(Clause::Content))
        }
    };
    let guest = &mut seat.guest;
    // On its way down while something in it waits: it keeps what it has left.
    let halt = clause == Clause::Strained && guest.track.is_shrinking();
    let command = match action {
        Action::Hold if halt => Some(actual),
        // Nothing is said to a balloon that somebody else moves, not even to stay.
        Action::Hold if clause == Clause::Foreign => None,
        Action::Hold => seat.cap,
        Action::Grow | Action::Shrink => Some(to),
    };
    if command.is_some() && action != Action::Hold {
        let going = guest.track.going(actual);
        pass.outcomes.extend(guest.track.supersede(sample.key, actual));
        guest.track.ask(to, actual, sample.resident, now_ms);
        match action {
            Action::Grow => {
                guest.moved(Way::Up, to.less(actual.plus(going)), sample, now_ms);
            }
            _ => guest.moved(Way::Down, actual.less(to), sample, now_ms),
        }
    } else if halt {
        pass.outcomes.extend(guest.track.supersede(sample.key, actual));
    }
    // That it is on its way is no news: the decision that sent it there was told.
    let is_new = clause != Clause::Moving && guest.said.replace(clause) != Some(clause);
    if command.is_some() || is_new {
        let detail = seat.at.held.map_or("", |(_, detail)| detail);
        let (key, from) = (sample.key, actual);
        let bounds = std::mem::take(&mut seat.bounds);
        pass.decisions.push(Decision {
            key,
            action,
            clause,
            detail,
            from,
            to,
            command,
            bounds,
            inputs,
        });
    }
    seat.guest
}
