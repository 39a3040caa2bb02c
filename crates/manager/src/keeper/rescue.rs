//! Which guest gets how much back, and when: pure.
//!
//! Nobody knows any more who is under pressure, so those that miss least are made whole first when
//! all fits. Otherwise what the manager took comes first, to everyone the same part of it, and then
//! all get as much as each other of what they lack besides: that is by their own word, and who
//! claims to lack most must not have most. What is handed out is
//! remembered: a guest that was given memory takes it up later, and until then the host's free
//! memory still shows it.

use std::collections::BTreeMap;

use counters::Bytes;

use super::Held;
use policy::arbiter::{Part, divide};
use procfs::Chance;

/// The promise of the lease.
pub const RESCUE_MS: u64 = 30_000;
/// What does not fit is tried again after this time.
const AGAIN_MS: u64 = 1000;
/// Guests that have not been reached are waited for this long.
const SEEK_MS: u64 = 3000;
/// A smaller gift is not worth a command, unless it is all that is missing.
const GIFT_MIN: Bytes = Bytes::mib(1);

/// What became of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has its memory, or will have as soon as it takes it.
    Restored,
    /// It is gone or was restarted, and why that is known.
    Gone(String),
    /// There was no room for all of it.
    Missing {
        /// What it did not get.
        bytes: Bytes,
        /// The last error of its hypervisor, if it refused.
        refusal: Option<String>,
    },
    /// It has all that its control groups leave it, and lacks so much.
    Bounded(Bytes),
    /// Its hypervisor did not answer.
    Unreached,
}

#[derive(Clone, Debug, Default)]
struct Patient {
    name: String,
    restore: Bytes,
    /// What it is to have before anybody gets more: with what was taken from it.
    own: Bytes,
    /// What it has, or was given and may take.
    level: Bytes,
    /// Its size, which may be more than it is to be given.
    actual: Bytes,
    /// What of that is a gift.
    given: Bytes,
    is_reached: bool,
    /// The target that was asked for last, and what it cost.
    asked: Option<(Bytes, Bytes)>,
    refusal: Option<String>,
    /// Memory that it does not get because its control groups have no more.
    beyond: Bytes,
    outcome: Option<Outcome>,
}

/// A rescue.
#[derive(Clone, Debug, Default)]
pub struct Rescue {
    patients: BTreeMap<u64, Patient>,
    reserve: Bytes,
    limit_ms: u64,
    began_ms: u64,
    /// The time that the keeper has had for it.
    chance: Chance,
    /// Free memory when something was last handed out, and the least that was seen since.
    seen: Option<(Bytes, Bytes)>,
    /// What was handed out and had not been taken up then.
    pending: Bytes,
    stepped_ms: Option<u64>,
    /// A guest was reached, or has failed, since the last step.
    is_news: bool,
}

impl Patient {
    fn missing(&self) -> Bytes {
        self.restore.less(self.level)
    }

    /// What it missed when the rescue began.
    fn missed(&self) -> Bytes {
        self.missing().plus(self.given)
    }

    /// What of that was taken from it.
    fn taken(&self) -> Bytes {
        self.own.less(self.level.less(self.given))
    }
}

impl Rescue {
    /// A rescue of these guests, which leaves `reserve` free.
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

    /// The same with guests that their control groups leave this much at most.
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

    /// A guest was reached, and has this much.
    pub fn reached(&mut self, id: u64, actual: Bytes) {
        if let Some(patient) = self.patients.get_mut(&id) {
            patient.is_reached = true;
            patient.actual = actual;
            // A gift that it has not taken up yet counts, and is not handed out again.
            if patient.asked.is_none() && patient.given == Bytes::ZERO {
                // One that says that it has less than it was left may say so of any size.
                patient.level = patient.level.max(actual.min(patient.restore));
            }
            self.is_news = true;
        }
    }

    /// A target was taken.
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

    /// The last target was refused: it is tried again.
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

    /// A guest is gone, or is another one.
    pub fn gone(&mut self, id: u64, reason: &str) {
        if let Some(patient) = self.patients.get_mut(&id)
            && patient.outcome.is_none()
        {
            patient.outcome = Some(Outcome::Gone(reason.to_owned()));
            self.is_news = true;
        }
    }

    /// A guest's connection is lost; it may come back.
    pub fn lost(&mut self, id: u64) {
        if let Some(patient) = self.patients.get_mut(&id) {
            patient.is_reached = false;
            patient.asked = None;
        }
    }

    /// Returns whether a guest lacks something, as far as is known: one that its groups bound does.
    pub fn is_left(&self, id: u64) -> bool {
        let is_over = |patient: &Patient| {
            matches!(patient.outcome, Some(Outcome::Restored | Outcome::Gone(_)))
        };
        self.patients.get(&id).is_some_and(|patient| !is_over(patient))
    }

    /// Takes a look at the time: after a pause of the whole machine it has all of it again.
    pub fn looks(&mut self, now_ms: u64) {
        self.began_ms = now_ms.saturating_sub(self.chance.look(now_ms, || None));
    }

    /// Whether nothing more can be done, or the time is over.
    pub fn is_over(&self, now_ms: u64) -> bool {
        self.is_late(now_ms) || self.patients.values().all(|patient| patient.outcome.is_some())
    }

    /// Whether the time is over.
    pub fn is_late(&self, now_ms: u64) -> bool {
        now_ms >= self.began_ms.saturating_add(self.limit_ms)
    }

    /// When it wants its next step, if nothing happens before.
    pub fn next_ms(&self, now_ms: u64) -> u64 {
        let again = self.stepped_ms.map_or(now_ms, |stepped| stepped.saturating_add(AGAIN_MS));
        again.min(self.began_ms.saturating_add(self.limit_ms))
    }

    /// The targets to ask for now, the smallest gift first. `available` is the host's free memory;
    /// while it is not known, nobody gets anything.
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
        // Everyone's part is one of all that there is to give, so those that were reached first
        // have no more of it than others.
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
            // With nothing missing its target is set all the same: the present one may be lower.
            if gift < missing && gift < GIFT_MIN {
                continue;
            }
            room = room.less(gift);
            patient.level = patient.level.plus(gift);
            patient.given = patient.given.plus(gift);
            // Nothing is taken from one that has more: the guest, or somebody else, wanted that.
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

    /// What each of those that count is due of all that there is to give.
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

    /// What may still be handed out. What was handed out and is not taken up yet is still seen
    /// as free, so it is not counted twice.
    fn room(&mut self, available: Bytes) -> Bytes {
        let (start, least) = self.seen.unwrap_or((available, available));
        self.seen = Some((start, least.min(available)));
        available.less(self.reserve).less(self.not_taken_up(available))
    }

    /// Free memory that became less was taken up by those who had been given it. That some has
    /// become free again since is not theirs.
    fn not_taken_up(&self, available: Bytes) -> Bytes {
        let (start, least) = self.seen.unwrap_or((available, available));
        self.pending.less(start.less(least))
    }

    /// What became of each guest, with its name.
    pub fn outcomes(&self) -> Vec<(&str, Outcome)> {
        let outcome = |patient: &Patient| match &patient.outcome {
            Some(outcome) => outcome.clone(),
            None if !patient.is_reached || patient.asked.is_some() => Outcome::Unreached,
            None => Outcome::Missing { bytes: patient.missing(), refusal: patient.refusal.clone() },
        };
        self.patients.values().map(|patient| (patient.name.as_str(), outcome(patient))).collect()
    }
}

/// The part of `pot` that is due to a guest from which `taken` of `all` was taken.
fn part(taken: Bytes, pot: Bytes, all: Bytes) -> Bytes {
    let part = u128::from(pot.0) * u128::from(taken.0) / u128::from(all.0.max(1));
    Bytes(u64::try_from(part).unwrap_or(u64::MAX)).min(taken)
}

#[cfg(test)]
mod tests;
