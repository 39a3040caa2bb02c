//! How often all guests are looked at.

use super::Guests;
use crate::effect::{Attention, Now};
use crate::guest::{ManagedGuest, SOUND_TICK_MS};

/// How often guests are looked at of which one is awake or moves.
const TICK_MS: u64 = 250;

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::GuestEvent;
    use crate::guests::testing::{OneGuest, now};
    use counters::Bytes;

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
}
