//! When what hypervisors have for themselves is measured.

use super::Guests;
use crate::effect::Now;
use counters::Bytes;
use hypervisor::Id;

/// New guests with so much memory together are looked at in a turn, and one at least.
const NEW_A_TURN: Bytes = Bytes::mib(1024);
impl Guests {
    /// What hypervisors have for themselves: a few a turn of which it is not known, else the one
    /// that ran and was looked at longest ago. Of a guest whose balloon moves it stays as it is, so
    /// that what the host gets is not told by two measures.
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
        let oldest = known
            .into_iter()
            .filter(|guest| guest.is_own_due(now.ms))
            .min_by_key(|guest| guest.outside.own_since());
        if let Some(guest) = oldest {
            guest.outside.measure_own(now.ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Place, load};
    use crate::effect::GuestEvent;
    use crate::guests::Entitlement;
    use hypervisor::{BalloonStats, Event, Fake, Found, IdSource, ProcessId};
    use std::sync::mpsc::channel;

    #[test]
    fn a_hypervisor_is_measured_again_whose_guest_has_run_though_it_was_asked_just_now() {
        // A thread that waits is a virtual CPU that sleeps, once it was seen for long enough.
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            ended.recv().unwrap_err();
        });
        let thread = told.recv().unwrap();
        let tid = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let memory = Bytes::mib(64);
        // What is mapped here is no smaller than that.
        let room = std::hint::black_box(vec![1_u8; memory.0 as usize]);
        let found = Found {
            process: ProcessId::of(std::process::id()),
            vcpu_tids: vec![tid],
            // The process has what all tests have: that is to look like no mistake.
            actual: Bytes::mib(1 << 20),
            ..Fake::found("one", memory)
        };
        let settings = load(None, &Place::default()).unwrap().settings;
        let (id, mut guests) = (IdSource::new().next(), Guests::default());
        let mut step = |event, second: u64| {
            let by = Entitlement { settings: &settings, acts: true };
            let now = Now { ms: second * 1000, wall_ms: 0 };
            guests.step(by, event, now);
            guests.get(id).and_then(|guest| guest.outside.own_since())
        };
        let stats = |updated_s| {
            let (total, available) = (Some(memory), Some(memory));
            let stats = BalloonStats { updated_s, total, available, ..BalloonStats::default() };
            GuestEvent::Source(0, Event::Stats(id, stats))
        };
        step(GuestEvent::Source(0, Event::Found(id, Box::new(found))), 0);
        for second in 1..3 {
            step(stats(second), second);
            step(GuestEvent::Tick, second);
        }
        assert_eq!(step(GuestEvent::PassBegins, 2), Some(2_000));
        step(GuestEvent::Tick, 3);
        step(stats(61), 61);
        assert_eq!(step(GuestEvent::PassBegins, 61), Some(2_000), "a minute is not over");
        step(stats(62), 62);
        assert_eq!(step(GuestEvent::PassBegins, 62), Some(62_000));
        // It is seen to sleep after five seconds, and was measured since.
        for second in 63..72 {
            step(GuestEvent::Tick, second);
        }
        assert_eq!(step(GuestEvent::PassBegins, 122), Some(122_000));
        for second in 123..190 {
            step(GuestEvent::Tick, second);
        }
        assert_eq!(step(GuestEvent::PassBegins, 190), Some(122_000), "it has slept since");
        drop((end, room));
        sleeper.join().unwrap();
    }
}
