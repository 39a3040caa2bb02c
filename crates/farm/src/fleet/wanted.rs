//! Guests that are parked and that clients want: so many are woken a second, the others wait for
//! their turn.
//!
//! A wake costs some hundredths of a second of CPU. Many at once would all be slow, and whoever may
//! connect to the ports could keep the host's CPUs busy with nothing else. It costs memory, too,
//! which a host may not have until others are parked.

use std::collections::VecDeque;

use reactor::Budget;

/// Wakes a second that each of the host's CPUs is good for, and at once after a while without.
const WAKES_A_CPU: u64 = 16;

/// So long after a wake another guest is woken on a host that is short of memory.
const SHORT_MS: u64 = 1_000;

/// Who waits to be woken, in the order in which their clients have come.
#[derive(Debug)]
pub(super) struct Wanted {
    guests: VecDeque<usize>,
    budget: Budget,
    a_second: u64,
    woke_ms: u64,
}

impl Wanted {
    /// Nobody, on a host with so many CPUs.
    pub(super) fn new(cpus: usize, now_ms: u64) -> Wanted {
        let a_second = WAKES_A_CPU * cpus.max(1) as u64;
        let budget = Budget::new(a_second, a_second, now_ms);
        Wanted { guests: VecDeque::new(), budget, a_second, woke_ms: 0 }
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.guests.is_empty()
    }

    /// A client has come.
    pub(super) fn add(&mut self, guest: usize) {
        self.guests.push_back(guest);
    }

    /// The next to be woken, if one may be now. Nothing is spent for it yet.
    pub(super) fn next(&mut self, is_short: bool, now_ms: u64) -> Option<usize> {
        self.may_wake(is_short, now_ms).then(|| self.guests.pop_front()).flatten()
    }

    /// Whether one more may be woken now.
    pub(super) fn may_wake(&mut self, is_short: bool, now_ms: u64) -> bool {
        self.budget.refill(now_ms);
        let waits = is_short && now_ms.saturating_sub(self.woke_ms) < SHORT_MS;
        self.budget.left() > 0 && !waits
    }

    /// A guest was woken.
    pub(super) fn woke(&mut self, now_ms: u64) {
        self.budget.spend(1);
        self.woke_ms = now_ms;
    }

    /// So long nobody more is woken, if somebody waits.
    pub(super) fn wait_ms(&self) -> Option<u64> {
        (!self.is_empty()).then(|| (1000 / self.a_second).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_clients_at_once_wake_so_many_guests_a_second_in_their_order() {
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
    fn on_a_host_that_is_short_of_memory_one_is_woken_a_second() {
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
