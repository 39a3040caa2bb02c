//! How often all guests are looked at, and when what hypervisors have for themselves is measured.

use super::Guests;
use crate::effect::{Attention, Now};
use crate::guest::{ManagedGuest, SOUND_TICK_MS};
use counters::Bytes;
use hypervisor::Id;

/// How often guests are looked at of which one is awake or moves.
const TICK_MS: u64 = 250;
/// New guests with so much memory together are looked at in a turn, and one at least.
const NEW_A_TURN: Bytes = Bytes::mib(1024);

impl Guests {
    /// After how long all of them are looked at again: while they sleep soundly and nothing is
    /// moved, there is nothing to be seen in between.
    pub(crate) fn tick_ms(&self, now: Now) -> u64 {
        let rests = |guest: &ManagedGuest| {
            let is_watched = self.attention(guest.id) != Attention::default();
            guest.is_sound(now.ms) && !guest.memory.is_taken && !is_watched
        };
        if self.iter().all(rests) { SOUND_TICK_MS } else { TICK_MS }
    }

    /// What hypervisors have for themselves: a few a turn of which it is not known, else one that
    /// was paged out since, else the one that ran and was looked at longest ago. Of a guest whose
    /// balloon moves it stays as it is, so that what the host gets is not told by two measures.
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

    #[test]
    fn guests_that_sleep_are_looked_at_once_a_second_until_one_moves() {
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
        assert_eq!(step(GuestEvent::Tick, 3), TICK_MS, "it was asked a moment ago");
        assert_eq!(step(GuestEvent::Tick, 9), SOUND_TICK_MS);
        let moves = Attention { moves: true, strained: false };
        assert_eq!(step(GuestEvent::Attend(id, moves), 9), TICK_MS);
        assert_eq!(step(GuestEvent::Attend(id, Attention::default()), 9), SOUND_TICK_MS);
        // Page-out has to end when its guest wakes.
        assert_eq!(step(GuestEvent::PageOutBegins(id), 9), TICK_MS);
    }

    #[test]
    fn a_hypervisor_is_measured_again_whose_guest_has_run_though_it_was_asked_just_now() {
        let memory = Bytes::mib(64);
        // What is mapped here is no smaller than that.
        let room = std::hint::black_box(vec![1_u8; memory.0 as usize]);
        // Beside it the process has what all tests have. If that were more than the balloon leaves
        // the guest, the measure would look wrong and be repeated sooner.
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
        // It was not seen for long enough to be asleep.
        one.step(GuestEvent::Tick, 3);
        one.tell(61);
        assert_eq!(measured(&mut one, 61), Some(2_000), "a minute is not over");
        one.tell(62);
        assert_eq!(measured(&mut one, 62), Some(62_000));
        // It is seen to sleep after five seconds, and was measured since.
        for second in 63..72 {
            one.step(GuestEvent::Tick, second);
        }
        assert_eq!(measured(&mut one, 122), Some(122_000));
        for second in 123..190 {
            one.step(GuestEvent::Tick, second);
        }
        assert_eq!(measured(&mut one, 190), Some(122_000), "it has slept since");
        // Page-out takes of the hypervisor, too: that is not waited for.
        one.step(GuestEvent::PageOutBegins(one.id), 191);
        one.step(GuestEvent::PageOutEnded(one.id), 191);
        assert_eq!(measured(&mut one, 192), Some(192_000));
        drop(room);
    }
}
