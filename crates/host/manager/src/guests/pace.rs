//! Interval between readings of all guests, and the order of measurements of hypervisors' own
//! memory.

use super::Guests;
use crate::effect::{Attention, Now};
use crate::guest::{ManagedGuest, SOUND_TICK_MS};
use base::Bytes;
use hypervisor::Id;

/// Interval between readings while a guest is awake or a balloon moves.
const TICK_MS: u64 = 250;
/// Total memory of new guests measured in a turn. At least one guest is measured.
const NEW_A_TURN: Bytes = Bytes::mib(1024);

impl Guests {
    /// Returns the time to the next reading of all guests. The interval is long while all guests
    /// sleep soundly and nothing moves, because more readings would show no change.
    pub(crate) fn tick_ms(&self, now: Now) -> u64 {
        if self.rest(now) { SOUND_TICK_MS } else { TICK_MS }
    }

    /// Returns true while all guests sleep soundly and nothing moves.
    pub(crate) fn rest(&self, now: Now) -> bool {
        let rests = |guest: &ManagedGuest| {
            let is_watched = self.attention(guest.id) != Attention::default();
            guest.is_sound(now.ms) && !guest.memory.is_taken && !is_watched
        };
        self.iter().all(rests)
    }

    /// Measures hypervisors' own memory. A turn measures some unmeasured guests, or one guest if
    /// all are measured. In the latter case a guest that was paged out comes first, then the oldest
    /// measurement of a guest that has run since. A guest with a moving balloon is skipped, so that
    /// the host's gain is not computed from two different measurements.
    pub(super) fn measure_own(&mut self, now: Now) {
        let moves = |id: &Id| self.attended.get(id).is_some_and(|attention| attention.moves);
        let still = self.guests.iter_mut().filter(|(id, _)| !moves(id));
        let (new, known): (Vec<_>, Vec<_>) =
            still.map(|(_, guest)| guest).partition(|guest| guest.outside.own_since().is_none());
        if !new.is_empty() {
            let mut left = NEW_A_TURN;
            for guest in new {
                guest.outside.measure_own(now.ms);
                left = left.less(guest.found.memory);
                if left == Bytes::ZERO {
                    break;
                }
            }
            return;
        }
        let next = known
            .into_iter()
            .filter(|guest| guest.is_own_due(now.ms))
            .min_by_key(|guest| guest.outside.own_turn());
        if let Some(guest) = next {
            guest.outside.measure_own(now.ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::GuestEvent;
    use crate::guests::testing::{OneGuest, now};
    use hypervisor::{Event, balloon_row};
    use model::GuestField;

    #[test]
    fn sleeping_guests_are_read_once_a_second_until_one_moves() {
        let memory = Bytes::mib(1024);
        let mut one = OneGuest::start(memory, memory);
        for second in 1..3 {
            one.tell(second);
            one.step(GuestEvent::Tick, second);
        }
        let id = one.id;
        let mut step = |event, second| {
            one.step(event, second);
            one.guests.tick_ms(now(second))
        };
        assert_eq!(step(GuestEvent::Tick, 3), TICK_MS, "the guest had a request a moment ago");
        assert_eq!(step(GuestEvent::Tick, 9), SOUND_TICK_MS);
        let moves = Attention { moves: true, strained: false };
        assert_eq!(step(GuestEvent::Attend(id, moves), 9), TICK_MS);
        assert_eq!(step(GuestEvent::Attend(id, Attention::default()), 9), SOUND_TICK_MS);
        // Page-out must end when its guest wakes.
        assert_eq!(step(GuestEvent::PageOutBegins(id), 9), TICK_MS);
    }

    #[test]
    fn sleeping_guest_with_empty_samples_is_asked_until_mute() {
        let memory = Bytes::mib(256);
        let mut one = OneGuest::start(memory, memory);
        let id = one.id;
        for second in 1..=12 {
            one.step(GuestEvent::Tick, second);
            one.step(GuestEvent::Ask, second);
            let empty = balloon_row(second, memory, [(GuestField::BalloonFree, None)]);
            one.step(GuestEvent::Source(0, Event::Stats(id, empty)), second);
        }
        let guest = one.guests.get(id).unwrap();
        assert!(guest.memory.is_mute(), "its requests have not ended with its sleep");
        assert!(guest.is_known(13_000), "a mute guest is not woken again");
    }

    #[test]
    fn hypervisor_is_measured_again_after_its_guest_has_run() {
        let memory = Bytes::mib(64);
        // The mapping is at least as large as the guest's memory.
        let room = std::hint::black_box(vec![1_u8; memory.0 as usize]);
        // The process also has the memory of all other tests. If the process exceeded the guest's
        // size, the measurement would appear wrong and be repeated sooner.
        let mut one = OneGuest::start(memory, Bytes::mib(1 << 20));
        let measured = |one: &mut OneGuest, second| {
            one.step(GuestEvent::PassBegins, second);
            one.guests.get(one.id).and_then(|guest| guest.outside.own_since())
        };
        for second in 1..3 {
            one.tell(second);
            one.step(GuestEvent::Tick, second);
        }
        assert_eq!(measured(&mut one, 2), Some(2_000));
        // The guest was not watched long enough to count as asleep.
        one.step(GuestEvent::Tick, 3);
        one.tell(61);
        assert_eq!(measured(&mut one, 61), Some(2_000), "a minute is not over");
        one.tell(62);
        assert_eq!(measured(&mut one, 62), Some(62_000));
        // The guest counts as asleep after five seconds, and its own part was measured since.
        for second in 63..72 {
            one.step(GuestEvent::Tick, second);
        }
        // Two equal measurements double the interval.
        assert_eq!(measured(&mut one, 181), Some(62_000));
        assert_eq!(measured(&mut one, 182), Some(182_000));
        for second in 183..310 {
            one.step(GuestEvent::Tick, second);
        }
        assert_eq!(measured(&mut one, 310), Some(182_000), "the guest has slept since");
        // Page-out also reclaims the hypervisor's own memory, so a new measurement is due at once.
        one.step(GuestEvent::PageOutBegins(one.id), 311);
        one.step(GuestEvent::PageOutEnded(one.id), 311);
        assert_eq!(measured(&mut one, 312), Some(312_000));
        drop(room);
    }
}
