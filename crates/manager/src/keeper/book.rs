//! The state of the manager's guests as the keeper received it, and whether the time has come.

use std::collections::BTreeMap;

use counters::Bytes;

use super::{Held, Order, Place};
use crate::ksm::Saved;

/// More guests than that are on no host; the manager's own bound is lower.
const GUESTS_MAX: usize = 10_000;
/// If the keeper itself was not run for so long, the manager may not have been either: the whole
/// machine was paused, or their control group was. Then its silence means nothing yet.
const OVERSLEPT_MS: u64 = 5000;
/// The keeper looks at least this often, so that it notices that it overslept.
const LOOK_MS: u64 = 2000;

/// How long to be patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A manager without a beat for so long hangs.
    pub beat_ms: u64,
    /// A rescue that takes longer is given up.
    pub rescue_ms: u64,
}

impl Default for Limits {
    /// Seven beats of the manager, and the promise of the lease.
    fn default() -> Limits {
        Limits { beat_ms: 15_000, rescue_ms: super::RESCUE_MS }
    }
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Wait for a message of the manager, at most until then.
    Wait {
        /// When to look again.
        until_ms: u64,
    },
    /// The manager has ended in order: there is nothing to do.
    Leave,
    /// The manager is dead.
    Rescue,
    /// The manager hangs: end it, then rescue.
    End,
}

/// The state that the keeper received.
#[derive(Clone, Debug, Default)]
pub struct Book {
    guests: BTreeMap<u64, Held>,
    parked: BTreeMap<u64, Held>,
    /// Free memory of the host that is not given to anyone.
    pub reserve: Bytes,
    /// KSM's settings to put back, if any.
    pub ksm: Option<Saved>,
    /// When the last sign of life came; before the first one nobody can be late.
    beat_ms: Option<u64>,
    looked_ms: Option<u64>,
    /// The manager's last message, if it ended in order.
    done: Option<bool>,
}

impl Book {
    pub fn new() -> Book {
        Book::default()
    }

    /// Takes a change.
    pub fn take(&mut self, order: Order, now_ms: u64) {
        match order {
            Order::Guest(held) => keep(&mut self.guests, held),
            Order::Drop(id) => drop(self.guests.remove(&id)),
            Order::Parked(held) => keep(&mut self.parked, held),
            Order::Awake(id) => drop(self.parked.remove(&id)),
            // Whom to end is a matter of descriptors, and no decision. It is a sign of life too.
            Order::Beat(_) | Order::Manager { .. } => self.beat_ms = Some(now_ms),
            Order::Reserve(bytes) => self.reserve = Bytes(bytes),
            Order::Ksm(saved) => self.ksm = saved,
            Order::Done(done) => self.done = Some(done),
        }
    }

    /// What to do now. Call it after all messages so far were taken; `has_ended` means that the
    /// manager's end of the pipe is closed.
    pub fn verdict(&mut self, has_ended: bool, limits: Limits, now_ms: u64) -> Verdict {
        let looked_ms = self.looked_ms.replace(now_ms).unwrap_or(now_ms);
        let has_nothing = self.guests.is_empty() && self.parked.is_empty() && self.ksm.is_none();
        if self.done == Some(true) || (has_ended && has_nothing) {
            return Verdict::Leave;
        }
        if has_ended {
            return Verdict::Rescue;
        }
        let look_ms = now_ms.saturating_add(LOOK_MS);
        let Some(beat_ms) = self.beat_ms.as_mut() else {
            return Verdict::Wait { until_ms: look_ms };
        };
        if now_ms.saturating_sub(looked_ms) >= OVERSLEPT_MS {
            *beat_ms = now_ms;
        }
        let late_ms = beat_ms.saturating_add(limits.beat_ms);
        if now_ms >= late_ms {
            return Verdict::End;
        }
        Verdict::Wait { until_ms: look_ms.min(late_ms) }
    }

    /// The guests that have given memory up.
    pub fn guests(&self) -> impl Iterator<Item = &Held> {
        self.guests.values()
    }

    /// Those of them whose memory is this host's, and to be had of what that has free.
    pub fn of_this_host(&self) -> impl Iterator<Item = &Held> {
        self.guests().filter(|held| !matches!(held.place, Place::Messages { .. }))
    }

    /// The guests that are parked.
    pub fn parked(&self) -> impl Iterator<Item = &Held> {
        self.parked.values()
    }

    /// All guests for which something is to be done; one that is parked and has given memory up is
    /// there twice.
    pub fn all(&self) -> impl Iterator<Item = &Held> {
        self.guests().chain(self.parked())
    }

    /// Whether the manager has asked for the rescue itself, because it ends.
    pub fn is_asked_for(&self) -> bool {
        self.done.is_some()
    }
}

/// Keeps the newest of a guest.
fn keep(among: &mut BTreeMap<u64, Held>, held: Held) {
    if among.len() < GUESTS_MAX || among.contains_key(&held.id) {
        among.insert(held.id, held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { beat_ms: 15_000, rescue_ms: 30_000 };

    fn held(id: u64) -> Held {
        Held::example(id, 2, 1, 1)
    }

    #[test]
    fn a_pipe_that_ends_is_a_dead_manager_unless_it_ended_in_order() {
        let mut book = Book::new();
        assert_eq!(book.verdict(true, LIMITS, 0), Verdict::Leave, "nothing was taken");
        book.take(Order::Guest(held(1)), 0);
        assert_eq!(book.verdict(false, LIMITS, 0), Verdict::Wait { until_ms: 2000 });
        assert_eq!(book.verdict(true, LIMITS, 0), Verdict::Rescue);
        book.take(Order::Drop(1), 0);
        assert_eq!(book.verdict(true, LIMITS, 0), Verdict::Leave);
        book.take(Order::Ksm(Some(Saved::default())), 0);
        assert_eq!(book.verdict(true, LIMITS, 0), Verdict::Rescue, "KSM is to be put back");
        book.take(Order::Ksm(None), 0);
        book.take(Order::Parked(held(2)), 0);
        assert_eq!(book.verdict(true, LIMITS, 0), Verdict::Rescue, "a guest is to run again");
        book.take(Order::Awake(2), 0);
        assert_eq!(book.verdict(true, LIMITS, 0), Verdict::Leave);
        book.take(Order::Parked(held(2)), 0);
        book.take(Order::Done(true), 0);
        assert_eq!(book.verdict(true, LIMITS, 0), Verdict::Leave);
    }

    #[test]
    fn a_manager_without_a_beat_hangs() {
        let mut book = Book::new();
        book.take(Order::Beat(1), 0);
        for now_ms in (0..15_000).step_by(1000) {
            assert!(matches!(book.verdict(false, LIMITS, now_ms), Verdict::Wait { .. }));
        }
        assert_eq!(book.verdict(false, LIMITS, 15_000), Verdict::End);
        book.take(Order::Beat(2), 15_000);
        assert_eq!(book.verdict(false, LIMITS, 15_500), Verdict::Wait { until_ms: 17_500 });
    }

    /// The numbers of SPECIFICATION.md.
    #[test]
    fn a_manager_has_15_s_and_a_rescue_30() {
        let limits = Limits::default();
        let mut book = Book::new();
        book.take(Order::Guest(held(1)), 0);
        book.take(Order::Beat(1), 0);
        let ended_ms = (0..60_000)
            .step_by(1_000)
            .find(|now_ms| book.verdict(false, limits, *now_ms) == Verdict::End);
        assert_eq!(ended_ms, Some(15_000));
        let rescue = crate::keeper::Rescue::new(book.guests(), Bytes::ZERO, limits.rescue_ms, 0);
        assert!(!rescue.is_over(29_999) && rescue.is_over(30_000));
    }

    #[test]
    fn after_a_pause_of_the_whole_machine_the_manager_has_its_time_again() {
        let mut book = Book::new();
        book.take(Order::Beat(1), 0);
        book.verdict(false, LIMITS, 1000);
        assert!(matches!(book.verdict(false, LIMITS, 100_000), Verdict::Wait { .. }));
        let mut now_ms = 100_000;
        while book.verdict(false, LIMITS, now_ms) != Verdict::End {
            now_ms += 1000;
        }
        assert_eq!(now_ms, 115_000);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut book = Book::new();
        for id in 0..20_000 {
            book.take(Order::Guest(held(id)), 0);
            book.take(Order::Parked(held(id)), 0);
        }
        assert_eq!(book.guests().count(), GUESTS_MAX);
        assert_eq!(book.parked().count(), GUESTS_MAX);
    }
}
