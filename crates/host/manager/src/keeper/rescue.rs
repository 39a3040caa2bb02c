//! Schedule of a rescue: the amount and the time of the memory that each guest gets back. This
//! module does no I/O.
//!
//! In a rescue, the manager's knowledge of each guest's pressure is lost. If the host has room for
//! all missing memory, the guests with the smallest gaps come first. Otherwise the memory reclaimed
//! by the manager is returned first, the same fraction to every guest.
//!
//! The remaining memory is divided equally, up to the rest of each guest's gap. That rest is only
//! the guest's own claim, so a large claim must not bring a large part.
//!
//! Granted memory is remembered, because the host's free memory contains it until the guest uses
//! it.

use std::collections::BTreeMap;

use base::Bytes;

use super::Held;
use policy::arbiter::{Part, divide};
use procfs::Chance;

/// Time within which the lease promises to restore guests.
pub const RESCUE_MS: u64 = 30_000;
/// Interval between two attempts to grant memory that did not fit.
const AGAIN_MS: u64 = 1000;
/// Time for which memory is reserved for guests that are not reached yet.
const SEEK_MS: u64 = 3000;
/// Smallest grant worth a command, unless the guest lacks even less.
const GIFT_MIN: Bytes = Bytes::mib(1);

/// Outcome of the rescue for a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The guest has its full memory, or will have it when its driver has deflated the balloon.
    Restored,
    /// The guest is gone or was restarted, with the evidence.
    Gone(String),
    /// The host had no room for all of the guest's memory.
    Missing {
        /// Memory that the guest did not get.
        bytes: Bytes,
        /// Last error of the guest's hypervisor, if it refused.
        refusal: Option<String>,
    },
    /// The guest has all memory that its control groups allow, and still lacks this amount.
    Bounded(Bytes),
    /// The guest's hypervisor did not answer.
    Unreached,
}

#[derive(Clone, Debug, Default)]
struct Patient {
    name: String,
    restore: Bytes,
    /// The guest's current size plus the memory reclaimed from the guest. No guest gets more before
    /// every guest has this size.
    own: Bytes,
    /// Memory that the guest has or was granted.
    level: Bytes,
    /// Size of the guest, which may exceed `restore`.
    actual: Bytes,
    /// Granted part of `level`.
    given: Bytes,
    is_reached: bool,
    /// Last requested target while its response is missing, and the memory granted by this target.
    asked: Option<(Bytes, Bytes)>,
    refusal: Option<String>,
    /// Part of the guest's full size that its control groups do not allow.
    beyond: Bytes,
    outcome: Option<Outcome>,
}

#[derive(Clone, Debug, Default)]
pub struct Rescue {
    patients: BTreeMap<u64, Patient>,
    reserve: Bytes,
    limit_ms: u64,
    began_ms: u64,
    /// Time for which the keeper could have run since the rescue began.
    chance: Chance,
    /// Free memory at the last grant, and the least free memory observed since.
    seen: Option<(Bytes, Bytes)>,
    /// Memory granted and not yet in use at the last grant.
    pending: Bytes,
    stepped_ms: Option<u64>,
    /// True if a guest was reached or has failed since the last step.
    is_news: bool,
}

impl Patient {
    fn missing(&self) -> Bytes {
        self.restore.less(self.level)
    }

    /// Returns the memory that the guest lacked when the rescue began.
    fn missed(&self) -> Bytes {
        self.missing().plus(self.given)
    }

    /// Returns the part of the guest's missing memory that the manager reclaimed.
    fn taken(&self) -> Bytes {
        self.own.less(self.level.less(self.given))
    }
}

impl Rescue {
    /// Returns a rescue of these guests that leaves `reserve` free.
    pub fn new<'a>(
        guests: impl Iterator<Item = &'a Held>,
        reserve: Bytes,
        limit_ms: u64,
        now_ms: u64,
    ) -> Rescue {
        let patient = |held: &Held| Patient {
            name: held.name.clone(),
            restore: Bytes(held.restore),
            own: Bytes(held.held.saturating_add(held.taken).min(held.restore)),
            level: Bytes(held.held),
            ..Patient::default()
        };
        Rescue {
            patients: guests.map(|held| (held.id, patient(held))).collect(),
            reserve,
            limit_ms,
            began_ms: now_ms,
            chance: Chance::since(now_ms),
            is_news: true,
            ..Rescue::default()
        }
    }

    /// Returns the same rescue with guests limited by their control groups.
    #[must_use]
    pub fn within(mut self, most: &BTreeMap<u64, Bytes>) -> Rescue {
        for (id, patient) in &mut self.patients {
            let Some(most) = most.get(id) else { continue };
            let all = patient.restore;
            patient.restore = all.min((*most).max(patient.level));
            patient.own = patient.own.min(patient.restore);
            patient.beyond = all.less(patient.restore);
        }
        self
    }

    /// Notes that a guest was reached and has `actual` memory.
    pub fn reached(&mut self, id: u64, actual: Bytes) {
        if let Some(patient) = self.patients.get_mut(&id) {
            patient.is_reached = true;
            patient.actual = actual;
            // A grant counts even while the guest does not use it yet, and is not made again.
            if patient.asked.is_none() && patient.given == Bytes::ZERO {
                // A guest may report any size. A size below the last known size is ignored.
                patient.level = patient.level.max(actual.min(patient.restore));
            }
            self.is_news = true;
        }
    }

    /// Notes that the guest's hypervisor accepted a target.
    pub fn taken(&mut self, id: u64, target: Bytes) {
        if let Some(patient) = self.patients.get_mut(&id)
            && patient.asked.is_some_and(|(asked, _)| asked == target)
        {
            patient.asked = None;
            if target >= patient.restore {
                patient.outcome = Some(match patient.beyond {
                    Bytes::ZERO => Outcome::Restored,
                    beyond => Outcome::Bounded(beyond),
                });
            }
        }
    }

    /// Notes that the last target was refused. It is tried again.
    pub fn refused(&mut self, id: u64, reason: &str) {
        if let Some(patient) = self.patients.get_mut(&id)
            && let Some((_, cost)) = patient.asked.take()
        {
            patient.level = patient.level.less(cost);
            patient.given = patient.given.less(cost);
            patient.refusal = Some(reason.to_owned());
            self.pending = self.pending.less(cost);
        }
    }

    /// Notes that a guest is gone or was replaced.
    pub fn gone(&mut self, id: u64, reason: &str) {
        if let Some(patient) = self.patients.get_mut(&id)
            && patient.outcome.is_none()
        {
            patient.outcome = Some(Outcome::Gone(reason.to_owned()));
            self.is_news = true;
        }
    }

    /// Notes that a guest's connection is lost. The connection may be restored.
    pub fn lost(&mut self, id: u64) {
        if let Some(patient) = self.patients.get_mut(&id) {
            patient.is_reached = false;
            patient.asked = None;
        }
    }

    /// Returns true if the guest still lacks memory, as far as is known. A guest limited by its
    /// control groups is included.
    pub fn is_left(&self, id: u64) -> bool {
        let is_over = |patient: &Patient| {
            matches!(patient.outcome, Some(Outcome::Restored | Outcome::Gone(_)))
        };
        self.patients.get(&id).is_some_and(|patient| !is_over(patient))
    }

    /// Updates the time. After a pause of the whole machine the rescue has its full time again.
    pub fn looks(&mut self, now_ms: u64) {
        self.began_ms = now_ms.saturating_sub(self.chance.look(now_ms, || None));
    }

    /// Returns true if nothing is left to do or the time is over.
    pub fn is_over(&self, now_ms: u64) -> bool {
        self.is_late(now_ms) || self.patients.values().all(|patient| patient.outcome.is_some())
    }

    /// Returns true if the time is over.
    pub fn is_late(&self, now_ms: u64) -> bool {
        now_ms >= self.began_ms.saturating_add(self.limit_ms)
    }

    /// Returns the time of the next step if nothing happens before.
    pub fn next_ms(&self, now_ms: u64) -> u64 {
        let again = self.stepped_ms.map_or(now_ms, |stepped| stepped.saturating_add(AGAIN_MS));
        again.min(self.began_ms.saturating_add(self.limit_ms))
    }

    /// Returns the targets to request now, smallest grant first. `available` is the host's free
    /// memory. While the free memory is unknown, nothing is granted.
    pub fn step(&mut self, available: Option<Bytes>, now_ms: u64) -> Vec<(u64, Bytes)> {
        let is_due = self.stepped_ms.is_none_or(|at| now_ms >= at.saturating_add(AGAIN_MS));
        let Some(available) = available.filter(|_| is_due || self.is_news) else {
            return Vec::new();
        };
        self.stepped_ms = Some(now_ms);
        self.is_news = false;
        let mut room = self.room(available);
        let seeks = now_ms < self.began_ms.saturating_add(SEEK_MS);
        let all = || self.patients.values();
        let counts = |patient: &&Patient| match patient.outcome {
            None => patient.is_reached || seeks,
            Some(_) => patient.given > Bytes::ZERO,
        };
        let missing: Bytes = all().filter(counts).map(Patient::missing).sum();
        // Each guest's part is computed from all memory to grant, so that a guest that is reached
        // early gets no more than others.
        let pot = room.plus(all().map(|patient| patient.given).sum());
        let fits = missing <= room;
        let due = self.due(pot, &counts);
        let mut ready: Vec<_> = self
            .patients
            .iter_mut()
            .filter(|(_, patient)| {
                patient.is_reached && patient.asked.is_none() && patient.outcome.is_none()
            })
            .collect();
        ready.sort_by_key(|(_, patient)| patient.missing());
        let mut targets = Vec::new();
        let mut handed = Bytes::ZERO;
        for (id, patient) in ready {
            let missing = patient.missing();
            let due = due.get(id).map_or(Bytes::ZERO, |due| due.less(patient.given));
            let gift = if fits { missing } else { due.min(missing).min(room) };
            // If nothing is missing, the target is still set, because the present target may be
            // lower.
            if gift < missing && gift < GIFT_MIN {
                continue;
            }
            room = room.less(gift);
            patient.level = patient.level.plus(gift);
            patient.given = patient.given.plus(gift);
            // A larger size stays, because the guest or another program requested it.
            let whole = patient.restore.max(patient.actual);
            let target = if gift == missing { whole } else { patient.level };
            patient.asked = Some((target, gift));
            handed = handed.plus(gift);
            targets.push((*id, target));
        }
        if handed > Bytes::ZERO {
            self.pending = self.not_taken_up(available).plus(handed);
            self.seen = Some((available, available));
        }
        targets
    }

    /// Returns the part of `pot` for each guest that `counts` selects.
    fn due(&self, pot: Bytes, counts: &dyn Fn(&&Patient) -> bool) -> BTreeMap<u64, Bytes> {
        let all: Vec<(&u64, &Patient)> =
            self.patients.iter().filter(|(_, patient)| counts(patient)).collect();
        let taken: Bytes = all.iter().map(|(_, patient)| patient.taken()).sum();
        let more = all
            .iter()
            .map(|(_, patient)| Part { cap: patient.missed().less(patient.taken()), weight: 1 });
        let more = divide(pot.less(taken), &more.collect::<Vec<_>>());
        let due = |patient: &Patient, more: Bytes| part(patient.taken(), pot, taken).plus(more);
        all.iter().zip(more).map(|((id, patient), more)| (**id, due(patient, more))).collect()
    }

    /// Returns the memory that may still be granted. Granted memory that is not in use yet still
    /// shows as free, and must not count twice.
    fn room(&mut self, available: Bytes) -> Bytes {
        let (start, least) = self.seen.unwrap_or((available, available));
        self.seen = Some((start, least.min(available)));
        available.less(self.reserve).less(self.not_taken_up(available))
    }

    /// Returns granted memory that guests do not use yet. A fall of the host's free memory counts
    /// as use of granted memory. A later rise does not count as return of granted memory.
    fn not_taken_up(&self, available: Bytes) -> Bytes {
        let (start, least) = self.seen.unwrap_or((available, available));
        self.pending.less(start.less(least))
    }

    /// Returns the outcome of each guest, with its name.
    pub fn outcomes(&self) -> Vec<(&str, Outcome)> {
        let outcome = |patient: &Patient| match &patient.outcome {
            Some(outcome) => outcome.clone(),
            None if !patient.is_reached || patient.asked.is_some() => Outcome::Unreached,
            None => Outcome::Missing { bytes: patient.missing(), refusal: patient.refusal.clone() },
        };
        self.patients.values().map(|patient| (patient.name.as_str(), outcome(patient))).collect()
    }
}

/// Returns the part of `pot` due to a guest that lost `taken` of the total `all`.
fn part(taken: Bytes, pot: Bytes, all: Bytes) -> Bytes {
    let part = u128::from(pot.0) * u128::from(taken.0) / u128::from(all.0.max(1));
    Bytes(u64::try_from(part).unwrap_or(u64::MAX)).min(taken)
}

#[cfg(test)]
mod tests;
