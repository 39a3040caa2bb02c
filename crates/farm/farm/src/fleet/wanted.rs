//! Queue of parked guests that clients wait for. A limited number of these guests is woken per
//! second, and the other guests wait.
//!
//! A wake-up costs a few hundredths of a second of CPU time. If many guests woke at once, all
//! wake-ups would be slow, and any client of the ports could keep the host's CPUs busy. A wake-up
//! also costs memory, which the host may not have before other guests are parked.

use std::collections::VecDeque;

use reactor::Budget;

/// Wake-ups per second for each host CPU. After a pause, this number of guests may wake at once for
/// each CPU.
const WAKES_A_CPU: u64 = 16;

/// Wait between two wake-ups on a host that is short of memory.
const SHORT_MS: u64 = 1_000;

/// Queue of guests to wake, in the order in which their clients came.
#[derive(Debug)]
pub(super) struct Wanted {
    guests: VecDeque<usize>,
    budget: Budget,
    a_second: u64,
    woke_ms: u64,
}

impl Wanted {
    pub(super) fn new(cpus: usize, now_ms: u64) -> Wanted {
        let a_second = WAKES_A_CPU * cpus.max(1) as u64;
        let budget = Budget::new(a_second, a_second, now_ms);
        Wanted { guests: VecDeque::new(), budget, a_second, woke_ms: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.guests.is_empty()
    }

    pub(super) fn add(&mut self, guest: usize) {
        self.guests.push_back(guest);
    }

    /// Returns the next guest to wake, if one may be woken now. The caller reports the wake to
    /// [`Wanted::woke`].
    pub(super) fn next(&mut self, is_short: bool, now_ms: u64) -> Option<usize> {
        self.may_wake(is_short, now_ms).then(|| self.guests.pop_front()).flatten()
    }

    pub(super) fn may_wake(&mut self, is_short: bool, now_ms: u64) -> bool {
        self.budget.refill(now_ms);
        let waits = is_short && now_ms.saturating_sub(self.woke_ms) < SHORT_MS;
        self.budget.left() > 0 && !waits
    }

    pub(super) fn woke(&mut self, now_ms: u64) {
        self.budget.spend(1);
        self.woke_ms = now_ms;
    }

    /// Returns the time until the next wake-up, if a guest waits.
    pub(super) fn wait_ms(&self) -> Option<u64> {
        (!self.is_empty()).then(|| (1000 / self.a_second).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousand_clients_wake_guests_in_order_at_limited_rate() {
        let mut wanted = Wanted::new(2, 0);
        assert_eq!(wanted.wait_ms(), None);
        (0..1000).for_each(|guest| wanted.add(guest));
        let mut woken = Vec::new();
        let mut now_ms = 0;
        while let Some(wait_ms) = wanted.wait_ms() {
            while let Some(guest) = wanted.next(false, now_ms) {
                wanted.woke(now_ms);
                woken.push(guest);
            }
            if now_ms == 0 {
                assert_eq!(woken.len(), 32, "at once");
            }
            now_ms += wait_ms;
        }
        assert_eq!(woken, (0..1000).collect::<Vec<_>>());
        assert!((30_000..31_500).contains(&now_ms), "{now_ms} ms");
    }

    #[test]
    fn short_host_wakes_one_guest_a_second() {
        let mut wanted = Wanted::new(2, 0);
        (0..10).for_each(|guest| wanted.add(guest));
        let mut woken = 0;
        for now_ms in (1_000..4_000).step_by(31) {
            while wanted.next(true, now_ms).is_some() {
                wanted.woke(now_ms);
                woken += 1;
            }
        }
        assert_eq!(woken, 3);
        assert_eq!(wanted.next(false, 4_000), Some(3), "there is room again");
    }
}
