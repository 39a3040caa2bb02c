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
    use crate::config::{Place, load};
    use crate::effect::GuestEvent;
    use crate::guests::Entitlement;
    use counters::Bytes;
    use hypervisor::{BalloonStats, Event, Fake, Found, IdSource, ProcessId};
    use std::sync::mpsc::channel;

    #[test]
    fn guests_that_sleep_are_looked_at_once_a_second_until_one_moves() {
        // A thread that waits is a virtual CPU that sleeps.
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            ended.recv().unwrap_err();
        });
        let thread = told.recv().unwrap();
        let tid = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let memory = Bytes::mib(1024);
        let found = Found {
            process: ProcessId::of(std::process::id()),
            vcpu_tids: vec![tid],
            ..Fake::found("sleeper", memory)
        };
        let settings = load(None, &Place::default()).unwrap().settings;
        let (id, mut guests) = (IdSource::new().next(), Guests::default());
        let mut step = |event, ms| {
            let by = Entitlement { settings: &settings, acts: true };
            let now = Now { ms, wall_ms: 0 };
            guests.step(by, event, now);
            guests.tick_ms(now)
        };
        step(GuestEvent::Source(0, Event::Found(id, Box::new(found))), 0);
        for second in 1..3 {
            let stats = BalloonStats {
                updated_s: second,
                total: Some(memory),
                available: Some(memory),
                ..BalloonStats::default()
            };
            step(GuestEvent::Source(0, Event::Stats(id, stats)), second * 1000);
            step(GuestEvent::Tick, second * 1000);
        }
        assert_eq!(step(GuestEvent::Tick, 3_000), TICK_MS, "it was asked a moment ago");
        assert_eq!(step(GuestEvent::Tick, 9_000), SOUND_TICK_MS);
        let moves = Attention { moves: true, strained: false };
        assert_eq!(step(GuestEvent::Attend(id, moves), 9_000), TICK_MS);
        assert_eq!(step(GuestEvent::Attend(id, Attention::default()), 9_000), SOUND_TICK_MS);
        // Page-out has to end when its guest wakes.
        assert_eq!(step(GuestEvent::PageOutBegins(id), 9_000), TICK_MS);
        drop(end);
        sleeper.join().unwrap();
    }
}
