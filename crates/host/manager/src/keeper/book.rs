//! The state of the manager's guests as the keeper received it, and the verdict on the manager.

use std::collections::BTreeMap;

use base::Bytes;
use procfs::{Chance, Work};

use super::{Held, Order, Place};
use crate::ksm::Saved;

/// Maximum number of guests in the book, more than any host has. The manager's own limit is lower.
const GUESTS_MAX: usize = 10_000;
/// Longest interval between checks, so that the keeper notices its own delays. If the keeper was
/// delayed, the manager may not have run either, and the manager's silence proves nothing yet.
const LOOK_MS: u64 = 2000;

/// Timeouts of a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time without a heartbeat after which the manager counts as hung. Only time in which the
    /// manager could have run counts.
    pub beat_ms: u64,
    /// Time after which a rescue is given up.
    pub rescue_ms: u64,
}

impl Default for Limits {
    /// Returns a timeout of more than seven heartbeats for the manager, and the time that the lease
    /// promises for a rescue.
    fn default() -> Limits {
        Limits { beat_ms: 15_000, rescue_ms: super::RESCUE_MS }
    }
}

/// Action that is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Wait for a message of the manager, at most until a time.
    Wait {
        /// Time of the next check.
        until_ms: u64,
    },
    /// Leave, because the manager has ended in order.
    Leave,
    /// Restore the guests, because the manager is dead.
    Rescue,
    /// Kill the hung manager, and then restore the guests.
    End,
}

/// The state that the keeper received.
#[derive(Clone, Debug, Default)]
pub struct Book {
    guests: BTreeMap<u64, Held>,
    parked: BTreeMap<u64, Held>,
    /// Free memory of the host that no guest gets.
    pub reserve: Bytes,
    /// KSM's settings to restore, if any.
    pub ksm: Option<Saved>,
    /// Time for which the manager could have run since the last heartbeat. Before the first
    /// heartbeat the manager cannot be late.
    beat: Option<Chance>,
    /// True if the manager ends in order.
    is_done: bool,
}

impl Book {
    pub fn new() -> Book {
        Book::default()
    }

    /// Applies a change.
    pub fn take(&mut self, order: Order, now_ms: u64) {
        match order {
            Order::Guest(held) => keep(&mut self.guests, held),
            Order::Drop(id) => drop(self.guests.remove(&id)),
            Order::Parked(held) => keep(&mut self.parked, held),
            Order::Awake(id) => drop(self.parked.remove(&id)),
            // The manager's descriptor is handled elsewhere. Here the message only counts as a
            // heartbeat.
            Order::Beat(_) | Order::Manager { .. } => self.beat = Some(Chance::since(now_ms)),
            Order::Reserve(bytes) => self.reserve = Bytes(bytes),
            Order::Ksm(saved) => self.ksm = saved,
            Order::Done => self.is_done = true,
        }
    }

    /// Returns the action that is due now. All received messages must have been applied before the
    /// call. `has_ended` is set if the manager's end of the pipe is closed, and `work` returns the
    /// CPU work of the manager's loop.
    pub fn verdict(
        &mut self,
        has_ended: bool,
        work: impl FnOnce() -> Option<Work>,
        limits: Limits,
        now_ms: u64,
    ) -> Verdict {
        let has_nothing = self.guests.is_empty() && self.parked.is_empty() && self.ksm.is_none();
        if has_ended && has_nothing {
            return Verdict::Leave;
        }
        if has_ended {
            return Verdict::Rescue;
        }
        let had_ms = self.beat.as_mut().map_or(0, |beat| beat.look(now_ms, work));
        match limits.beat_ms.saturating_sub(had_ms) {
            0 => Verdict::End,
            left_ms => Verdict::Wait { until_ms: now_ms.saturating_add(left_ms.min(LOOK_MS)) },
        }
    }

    /// Returns the guests that have given up memory.
    pub fn guests(&self) -> impl Iterator<Item = &Held> {
        self.guests.values()
    }

    /// Returns the guests that have given up memory of this host. The rescue returns this memory
    /// from the host's free memory.
    pub fn of_this_host(&self) -> impl Iterator<Item = &Held> {
        self.guests().filter(|held| !matches!(held.place, Place::Messages { .. }))
    }

    /// Returns the parked guests.
    pub fn parked(&self) -> impl Iterator<Item = &Held> {
        self.parked.values()
    }

    /// Returns all guests with work to do. A parked guest that has given up memory appears twice.
    pub fn all(&self) -> impl Iterator<Item = &Held> {
        self.guests().chain(self.parked())
    }

    /// Returns true if the manager has requested the rescue itself, because it ends.
    pub fn is_asked_for(&self) -> bool {
        self.is_done
    }
}

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
    fn closed_pipe_means_a_dead_manager_unless_it_ended_in_order() {
        let mut book = Book::new();
        assert_eq!(book.verdict(true, || None, LIMITS, 0), Verdict::Leave, "nothing was taken");
        book.take(Order::Guest(held(1)), 0);
        assert_eq!(book.verdict(false, || None, LIMITS, 0), Verdict::Wait { until_ms: 2000 });
        assert_eq!(book.verdict(true, || None, LIMITS, 0), Verdict::Rescue);
        book.take(Order::Drop(1), 0);
        assert_eq!(book.verdict(true, || None, LIMITS, 0), Verdict::Leave);
        book.take(Order::Ksm(Some(Saved::default())), 0);
        assert_eq!(
            book.verdict(true, || None, LIMITS, 0),
            Verdict::Rescue,
            "KSM must be restored at the end"
        );
        book.take(Order::Ksm(None), 0);
        book.take(Order::Parked(held(2)), 0);
        assert_eq!(
            book.verdict(true, || None, LIMITS, 0),
            Verdict::Rescue,
            "a guest must be resumed"
        );
        book.take(Order::Awake(2), 0);
        assert_eq!(book.verdict(true, || None, LIMITS, 0), Verdict::Leave);
    }

    #[test]
    fn a_manager_without_a_beat_hangs() {
        let mut book = Book::new();
        book.take(Order::Beat(1), 0);
        for now_ms in (0..15_000).step_by(1000) {
            assert!(matches!(book.verdict(false, || None, LIMITS, now_ms), Verdict::Wait { .. }));
        }
        assert_eq!(book.verdict(false, || None, LIMITS, 15_000), Verdict::End);
        book.take(Order::Beat(2), 15_000);
        assert_eq!(
            book.verdict(false, || None, LIMITS, 15_500),
            Verdict::Wait { until_ms: 17_500 }
        );
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
            .find(|now_ms| book.verdict(false, || None, limits, *now_ms) == Verdict::End);
        assert_eq!(ended_ms, Some(15_000));
        let rescue = crate::keeper::Rescue::new(book.guests(), Bytes::ZERO, limits.rescue_ms, 0);
        assert!(!rescue.is_over(29_999) && rescue.is_over(30_000));
    }

    #[test]
    fn manager_has_its_full_time_again_after_a_machine_pause() {
        let mut book = Book::new();
        book.take(Order::Beat(1), 0);
        book.verdict(false, || None, LIMITS, 1000);
        assert!(matches!(book.verdict(false, || None, LIMITS, 100_000), Verdict::Wait { .. }));
        let mut now_ms = 100_000;
        while book.verdict(false, || None, LIMITS, now_ms) != Verdict::End {
            now_ms += 1000;
        }
        assert_eq!(now_ms, 115_000);
    }

    /// Simulates a manager that is silent from the start, with a check each second. Returns the
    /// second in which the manager is ended.
    fn ended_after(delay_ms: u64, work: Work) -> Option<u64> {
        let mut book = Book::new();
        book.take(Order::Beat(1), 0);
        (1..1_000).find(|second| {
            let work = Work { delay_ns: second * delay_ms * 1_000_000, ..work };
            book.verdict(false, || Some(work), LIMITS, second * 1_000) == Verdict::End
        })
    }

    #[test]
    fn manager_is_spared_when_its_host_lets_it_not_run() {
        let free = Work::default();
        assert_eq!(ended_after(0, free), Some(15), "the manager waits for nothing");
        let short = ended_after(800, free);
        assert_eq!(short, Some(71), "the manager has a fifth of a CPU");
        let disk = ended_after(0, Work { waits_for_disk: true, ..free });
        assert_eq!(disk, Some(150), "a lost disk does not keep guests' memory forever");
    }

    #[test]
    fn book_holds_a_bounded_number_of_guests() {
        let mut book = Book::new();
        for id in 0..20_000 {
            book.take(Order::Guest(held(id)), 0);
            book.take(Order::Parked(held(id)), 0);
        }
        assert_eq!(book.guests().count(), GUESTS_MAX);
        assert_eq!(book.parked().count(), GUESTS_MAX);
    }
}
